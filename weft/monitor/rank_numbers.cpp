#include "weft/monitor/rank_numbers.h"

#include <algorithm>

namespace weft {
namespace {

// Both sides are the same version of weft (checked when ranks meet), so the order is free to change.
constexpr double RankNumbers::* kFields[] = {
    &RankNumbers::step_ms,         &RankNumbers::busy_ms,       &RankNumbers::data_ms,
    &RankNumbers::forward_ms,      &RankNumbers::backward_ms,   &RankNumbers::optimizer_ms,
    &RankNumbers::exposed_comm_ms, &RankNumbers::checkpoint_ms, &RankNumbers::reduce_ms,
    &RankNumbers::rss_bytes,       &RankNumbers::device_bytes,  &RankNumbers::device_reserved_bytes,
    &RankNumbers::cpu_percent,     &RankNumbers::gpu_percent,   &RankNumbers::num_buckets};
static_assert(std::size(kFields) == kNumRankFields);

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
  for (const BucketTime& bucket : times.buckets) {
    if (bucket.bucket < 0 || static_cast<size_t>(bucket.bucket) >= kNumReadyTimes) continue;
    out.num_buckets = std::max(out.num_buckets, bucket.bucket + 1.0);
    out.ready_ms[static_cast<size_t>(bucket.bucket)] = bucket.ready_ms;
  }
  return out;
}

}  // namespace weft
