#include "weft/engine/bucket_tuning.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "weft/base/clock.h"
#include "weft/base/quantile.h"
#include "weft/engine/agree.h"

namespace weft::engine {
namespace {

constexpr int64_t kSmall = 1024, kLarge = 2 << 20;  // elements
constexpr int kNumSmall = 9, kNumLarge = 3;
// What one element's update takes, about: some 30 bytes that go through memory. No more than a weight for tune_with_update().
constexpr double kUpdateOnCpuS = 1e-9, kUpdateOnDeviceS = 1e-11;

double time_once_s(comm::Group& group, const at::Tensor& data) {
  group.barrier();
  const Stopwatch watch;
  group.all_reduce(data);
  if (!data.is_cpu()) data.slice(0, 0, 1).cpu();  // the result is there, not only asked for
  return watch.elapsed_s();
}

double median_s(comm::Group& group, const at::Tensor& data, int num_calls) {
  time_once_s(group, data);  // the first touch of the memory
  std::vector<double> times_s;
  for (int i = 0; i < num_calls; ++i) times_s.push_back(time_once_s(group, data));
  return spread_of(times_s).median;
}

// Backward of the slowest rank: buckets leave when the last one has them.
std::vector<double> slowest(comm::Group& group, std::vector<double> mine_s, at::Device device) {
  at::Tensor all = at::empty({static_cast<int64_t>(mine_s.size())}, at::kDouble);
  std::copy(mine_s.begin(), mine_s.end(), all.mutable_data_ptr<double>());
  all = all.to(device);
  group.all_reduce(all, comm::ReduceOp::kMax);
  all = all.cpu();
  const auto* const values = all.const_data_ptr<double>();
  return {values, values + all.numel()};
}

plan::TuningInput input_of(const plan::Plan& plan, const std::vector<double>& ready_s, double backward_s) {
  plan::TuningInput input{.backward_end_s = backward_s};
  const auto& order = plan.layout.ready_order;
  for (size_t i = 0; i < order.size(); ++i) {
    input.gradients.push_back({.ready_s = ready_s[i], .num_elements = plan.layout.place(order[i]).num_elements});
  }
  return input;
}

// Positions in the ready order at which the buckets that there are begin.
std::vector<int> boundaries_of(const plan::Layout& layout) {
  std::vector<int> out;
  for (size_t i = 1; i < layout.ready_order.size(); ++i) {
    const int before = layout.home(layout.ready_order[i - 1]).bucket, here = layout.home(layout.ready_order[i]).bucket;
    if (before != here) out.push_back(static_cast<int>(i));
  }
  return out;
}

}  // namespace

plan::LinkCost measure_link(comm::Group& group, at::ScalarType wire, at::Device device) {
  const at::Tensor small = allocate_on(group, device, kSmall, wire), large = allocate_on(group, device, kLarge, wire);
  const double small_s = median_s(group, small, kNumSmall), large_s = median_s(group, large, kNumLarge);
  const auto more_bytes = static_cast<double>(large.nbytes() - small.nbytes());
  return {.latency_s = small_s, .bytes_per_s = more_bytes / std::max(large_s - small_s, 1e-9)};
}

TunedBuckets tune(comm::Group& group, const plan::Plan& plan, const ReadyLog& log, at::ScalarType wire,
                  at::Device device) {
  TunedBuckets out{.link = measure_link(group, wire, device)};
  std::vector<double> times_s;
  for (const int parameter : plan.layout.ready_order) times_s.push_back(log.last_s[static_cast<size_t>(parameter)]);
  times_s.push_back(log.backward_s);
  times_s.push_back(out.link.latency_s);
  times_s.push_back(1 / out.link.bytes_per_s);
  times_s = slowest(group, std::move(times_s), device);
  const size_t num_gradients = plan.layout.ready_order.size();
  out.link = {.latency_s = times_s[num_gradients + 1], .bytes_per_s = 1 / times_s[num_gradients + 2]};
  plan::TuningInput input = input_of(plan, times_s, times_s[num_gradients]);
  input.bytes_per_element = plan.options.compress ? 1 : static_cast<int64_t>(c10::elementSize(wire));
  input.link = out.link;
  const double update_s =
      static_cast<double>(plan.table.num_elements()) * (device.is_cpu() ? kUpdateOnCpuS : kUpdateOnDeviceS);
  const plan::Tuning best = tune_with_update(input, update_s);
  // The same numbers give the same cut everywhere; rank 0's is taken all the same, so that no rounding can part the ranks.
  std::vector<int> cut = best.boundaries;
  cut.resize(num_gradients, -1);
  cut = broadcast_numbers(group, cut, device);
  std::erase(cut, -1);
  out.before_s = exposed_time_s(input, boundaries_of(plan.layout));
  out.exposed_s = best.exposed_s;
  out.bound_s = best.lower_bound_s;
  out.num_buckets = static_cast<int>(cut.size()) + 1;
  out.boundaries = std::move(cut);
  return out;
}

}  // namespace weft::engine
