#include "weft/monitor/run_record.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

namespace weft {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string hex_digits(float value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto bits = std::bit_cast<uint32_t>(value);
  std::string out;
  for (int shift = 28; shift >= 0; shift -= 4) out += kDigits[(bits >> shift) & 0xF];
  return out;
}

// JSON has no NaN: a loss that is not finite is null, and its bits tell which it was.
OrderedJson finite_or_null(double value) { return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr); }

template <typename T>
OrderedJson or_null(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson parts_of(const StepSummary& parts) {
  return {{"forward", parts.forward_ms.median},
          {"backward", parts.backward_ms.median},
          {"optimizer", parts.optimizer_ms.median},
          {"exposed_comm", parts.exposed_comm_ms.median}};
}

OrderedJson checkpoints_of(const CheckpointFacts& it) {
  return {{"num_saves", it.num_saves},
          {"num_failed", it.num_failed},
          {"bytes", it.bytes},
          {"stopped_ms", it.stopped_ms},
          {"longest_stop_ms", it.longest_stop_ms},
          {"waited_ms", it.waited_ms},
          {"write_ms", it.write_ms},
          {"load_ms", it.load_ms},
          {"num_copies", it.num_copies},
          {"copy_stopped_ms", it.copy_stopped_ms}};
}

OrderedJson buckets_of(const BucketFacts& buckets) {
  return {{"num_buckets", buckets.num_buckets},           {"latency_ms", buckets.latency_ms},
          {"bytes_per_s", buckets.bytes_per_s},           {"expected_exposed_ms", buckets.expected_exposed_ms},
          {"bound_exposed_ms", buckets.bound_exposed_ms}, {"achieved_exposed_ms", buckets.achieved_exposed_ms}};
}

}  // namespace

int64_t num_warmup_steps(int64_t num_steps) { return std::min<int64_t>(5, num_steps / 3); }

void RunRecord::add_step(float loss, int64_t step_ns) {
  losses_.push_back(loss);
  step_ns_.push_back(step_ns);
}

void RunRecord::add_scale(double loss_scale, bool skipped) {
  loss_scales_.push_back(loss_scale);
  if (skipped) skipped_steps_.push_back(facts.first_step + num_steps());
}

Spread RunRecord::times_ms() const {
  std::vector<double> timed;
  for (int64_t i = num_warmup_steps(num_steps()); i < num_steps(); ++i) timed.push_back(step_ms(i));
  return spread_of(std::move(timed));
}

double RunRecord::tokens_per_s() const {
  const int64_t first = num_warmup_steps(num_steps());
  double total_ms = 0;
  for (int64_t i = first; i < num_steps(); ++i) total_ms += step_ms(i);
  if (total_ms <= 0) return 0;
  return static_cast<double>(facts.tokens_per_step * (num_steps() - first)) / (total_ms * 1e-3);
}

double RunRecord::final_loss() const {
  if (losses_.empty()) return std::nan("");
  const auto count = std::max<size_t>(1, losses_.size() / 10);
  return std::accumulate(losses_.end() - static_cast<int64_t>(count), losses_.end(), 0.0) / static_cast<double>(count);
}

std::string RunRecord::to_json() const {
  OrderedJson losses = OrderedJson::array(), bits = OrderedJson::array();
  for (const float loss : losses_) {
    losses.push_back(finite_or_null(loss));
    bits.push_back(hex_digits(loss));
  }
  const Spread step = times_ms();
  OrderedJson out = {
      {"schema", 1},
      {"name", facts.name},
      {"status", facts.status},
      {"device", facts.device},
      {"data", facts.data},
      {"params", facts.params},
      {"world", facts.world},
      {"stage", facts.stage},
      {"threads", facts.threads},
      {"seed", facts.seed},
      {"first_step", facts.first_step},
      {"steps", num_steps()},
      {"tokens_per_step", facts.tokens_per_step},
      {"final_loss", finite_or_null(final_loss())},
      {"held_out_loss", or_null(facts.held_out_loss)},
      {"unigram_entropy", or_null(facts.unigram_entropy)},
      {"step_ms", {{"median", step.median}, {"min", step.min}, {"p90", step.p90}}},
      {"exposed_comm_ms", facts.exposed_comm_ms},
      {"bytes_sent", facts.bytes_sent},
      {"tokens_per_s", tokens_per_s()},
      {"peak_rss_bytes", facts.peak_rss_bytes},
      {"state_bytes",
       {{"params", facts.params_bytes}, {"grads", facts.grads_bytes}, {"optimizer", facts.optimizer_bytes}}}};
  if (facts.parts) out["breakdown_ms"] = parts_of(*facts.parts);
  if (facts.buckets) out["buckets"] = buckets_of(*facts.buckets);
  if (facts.checkpoints) out["checkpoints"] = checkpoints_of(*facts.checkpoints);
  if (facts.flops_per_step > 0) out["flops_per_step"] = facts.flops_per_step;
  if (facts.peak_flops_per_s > 0) out["peak_flops_per_s"] = facts.peak_flops_per_s;
  if (facts.host_memory_bytes) out["host_memory_bytes"] = *facts.host_memory_bytes;
  if (facts.device_memory_bytes) out["device_memory_bytes"] = *facts.device_memory_bytes;
  if (!facts.ledger.empty()) out["ledger"] = facts.ledger;
  if (facts.peak_device_bytes) out["peak_device_bytes"] = *facts.peak_device_bytes;
  out["loss"] = std::move(losses);
  out["loss_bits"] = std::move(bits);
  if (!loss_scales_.empty()) {
    out["loss_scale"] = loss_scales_;
    out["skipped_steps"] = skipped_steps_;
  }
  // Names come from the command line and may hold any bytes.
  return out.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace weft
