#include "weft/monitor/rank_numbers.h"

#include <algorithm>

namespace weft {
namespace {

// Both sides are the same version of weft (checked when ranks meet), so the order is free to change.
constexpr double RankNumbers::* kFields[] = {&RankNumbers::step_ms,           &RankNumbers::busy_ms,
                                             &RankNumbers::data_ms,           &RankNumbers::forward_ms,
                                             &RankNumbers::backward_ms,       &RankNumbers::optimizer_ms,
                                             &RankNumbers::exposed_comm_ms,   &RankNumbers::checkpoint_ms,
                                             &RankNumbers::reduce_ms,         &RankNumbers::rss_bytes,
                                             &RankNumbers::device_bytes,      &RankNumbers::device_reserved_bytes,
                                             &RankNumbers::cpu_percent,       &RankNumbers::gpu_percent,
                                             &RankNumbers::num_buckets,       &RankNumbers::pace_us,
                                             &RankNumbers::peak_rss_bytes,    &RankNumbers::host_bytes,
                                             &RankNumbers::peak_device_bytes, &RankNumbers::peak_device_reserved_bytes};
static_assert(std::size(kFields) == kNumRankFields);

size_t place_of(size_t bucket, size_t num_buckets) {
  return num_buckets <= kNumReadyTimes ? bucket : bucket * kNumReadyTimes / num_buckets;
}

}  // namespace

void RankNumbers::pack(std::span<double, kNumRankNumbers> out) const {
  for (size_t i = 0; i < kNumRankFields; ++i) out[i] = this->*kFields[i];
  std::ranges::copy(ready_ms, out.begin() + kNumRankFields);
}

RankNumbers RankNumbers::unpack(std::span<const double, kNumRankNumbers> values) {
  RankNumbers out;
  for (size_t i = 0; i < kNumRankFields; ++i) out.*kFields[i] = values[i];
  std::ranges::copy(values.subspan<kNumRankFields>(), out.ready_ms.begin());
  return out;
}

RankNumbers numbers_of(const StepTimes& times) {
  RankNumbers out{.step_ms = times.step_ms,
                  .busy_ms = times.busy_ms,
                  .data_ms = times.data_ms,
                  .forward_ms = times.forward_busy_ms,
                  .backward_ms = times.backward_busy_ms,
                  .optimizer_ms = times.optimizer_busy_ms,
                  .exposed_comm_ms = times.exposed_comm_ms,
                  .checkpoint_ms = times.checkpoint_ms,
                  .reduce_ms = times.reduce_ms};
  size_t num = 0;
  for (const BucketTime& bucket : times.buckets) {
    if (bucket.bucket >= 0) num = std::max(num, static_cast<size_t>(bucket.bucket) + 1);
  }
  out.num_buckets = static_cast<double>(num);
  for (const BucketTime& bucket : times.buckets) {
    if (bucket.bucket < 0) continue;
    double& ready_ms = out.ready_ms[place_of(static_cast<size_t>(bucket.bucket), num)];
    ready_ms = std::max(ready_ms, bucket.ready_ms);
  }
  return out;
}

BucketRange buckets_of_place(size_t place, size_t num_buckets) {
  const size_t places = std::min(num_buckets, kNumReadyTimes);
  const auto first_of = [&](size_t of) { return (of * num_buckets + places - 1) / places; };
  return {.first = first_of(place), .last = first_of(place + 1) - 1};
}

}  // namespace weft
