#include "weft/plan/plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/text.h"
#include "weft/config/optimizer_names.h"

namespace weft::plan {
namespace {

void check_range(std::string_view what, std::string_view setting, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return;
  throw Error(ErrorKind::kInput, {.title = cat("no plan has ", value, " ", what),
                                  .what = cat(setting, " is ", value),
                                  .where = "",
                                  .fix = cat("set ", setting, " from ", low, " to ", high)});
}

void check_options(const PlanOptions& options) {
  check_range("as its stage", "zero_optimization.stage", options.stage, 0, kMaxStage);
  check_range("micro-steps", "gradient_accumulation_steps", options.accumulation_steps, 1, kMaxAccumulationSteps);
  check_range("live elements", "stage3_max_live_parameters", options.live_elements, 0, INT64_MAX);
  check_range("bytes of optimizer state for an element", "state_bytes_per_element",
              options.optimizer.state_bytes_per_element, 0, kMaxStateBytes);
  WEFT_CHECK(options.host_copy == 0 || options.layout.world % options.host_copy == 0);
}

Dtype dtype_of(config::Dtype dtype) {
  switch (dtype) {
    case config::Dtype::kFp16: return Dtype::kFp16;
    case config::Dtype::kBf16: return Dtype::kBf16;
    case config::Dtype::kFp32: return Dtype::kFp32;
  }
  return Dtype::kFp32;
}

std::optional<Dtype> dtype_of(const std::optional<config::Dtype>& dtype) {
  return dtype ? std::optional(dtype_of(*dtype)) : std::nullopt;
}

// Moments an optimizer keeps for each element. One that is not known counts as Adam: most keep two.
int64_t num_moments(const config::Optimizer& optimizer) {
  const std::string type = config::optimizer_kind(optimizer.type.value_or("adam"));
  if (type == "adagrad" || type == "lion" || type == "muon") return 1;
  if (type != "sgd") return 2;
  const config::Value* momentum = optimizer.params ? optimizer.params->find("momentum") : nullptr;
  return momentum != nullptr && momentum->is_number() && momentum->number() != 0 ? 1 : 0;
}

OptimizerCost cost_from(const config::Resolved& config) {
  const int64_t moment_bytes = bytes_of(config.bf16.bf16_optimizer_states ? Dtype::kBf16 : Dtype::kFp32);
  return {.state_bytes_per_element = num_moments(config.optimizer) * moment_bytes,
          .fp32_copy = !(config.bf16.enabled && config.bf16.bf16_master_weights_and_grads)};
}

// A bucket is what stage 3 gathers at once, and what is small stays.
void cut_into_units(const config::ZeroOptimization& zero, LayoutOptions& layout) {
  const int64_t most = std::clamp<int64_t>(zero.stage3_max_live_parameters, 1, kMaxUnitElements);
  layout.bucket_elements = std::min(zero.reduce_bucket_size, most);
  layout.persistent_below = zero.stage3_param_persistence_threshold;
  // As DeepSpeed counts it.
  layout.max_persistent_elements = zero.stage3_model_persistence_threshold / std::max(1, layout.world);
}

}  // namespace

void keep_in_host(int num_ranks, PlanOptions& options) {
  options.host_copy = num_ranks;
  options.layout.persistent_below = 0;  // there is nothing to gather, so nothing has to stay
}

Plan make_plan(ParameterTable table, PlanOptions options) {
  check_options(options);
  Layout layout = make_layout(table, options.layout);
  return {std::move(table), std::move(options), std::move(layout)};
}

PlanOptions options_from(const config::Resolved& config, int world) {
  const config::ZeroOptimization& zero = config.zero_optimization;
  const int64_t steps = config.gradient_accumulation_steps;
  check_range("micro-steps", "gradient_accumulation_steps", steps, 1, kMaxAccumulationSteps);
  check_range("as its stage", "zero_optimization.stage", zero.stage, 0, kMaxStage);
  PlanOptions out = {.layout = {.world = world,
                                .bucket_elements = zero.reduce_bucket_size,
                                .first_bucket_bytes = zero.overlap_comm ? kFirstBucketBytes : 0},
                     .stage = static_cast<int>(zero.stage),
                     .accumulation_steps = static_cast<int>(steps),
                     .counts_micro_steps = config.managed_gradient_accumulation,
                     .overlap = zero.overlap_comm,
                     .gradient_dtype = dtype_of(config.data_types.grad_accum_dtype),
                     .wire_dtype = dtype_of(config.communication_data_type),
                     .shard_update = config.weft.shard_update,
                     .reduce_each = config.weft.reduce_each == config::ReduceEach::kMicroStep,
                     .compress = config.weft.compress == config::Compress::kInt8,
                     .optimizer = cost_from(config),
                     .live_elements = zero.stage3_max_live_parameters};
  if (zero.stage == 3) cut_into_units(zero, out.layout);
  const int64_t in_host = zero.zero_hpz_partition_size;
  if (zero.stage == 3 && in_host > 1 && in_host < world && world % in_host == 0)
    keep_in_host(static_cast<int>(in_host), out);
  return out;
}

Dtype gradient_dtype(const PlanOptions& options, const Bucket& bucket) {
  return options.gradient_dtype.value_or(bucket.dtype);
}

Dtype wire_dtype(const PlanOptions& options, const Bucket& bucket) {
  return options.wire_dtype.value_or(gradient_dtype(options, bucket));
}

int64_t compressed_bytes(int64_t slice_elements) {
  const int64_t num_blocks = (slice_elements + kCompressBlock - 1) / kCompressBlock;
  return slice_elements + num_blocks * bytes_of(Dtype::kFp32);
}

int effective_stage(const Plan& plan, int stage) {
  WEFT_CHECK(stage >= 0 && stage <= kMaxStage);
  if (plan.layout.world == 1) return 0;
  return stage == 0 && plan.options.shard_update ? 1 : stage;
}

bool reads_in_place(const PlanOptions& options) { return options.common_parameters || options.host_copy > 0; }

bool adds_reduced(const Plan& plan, int stage) {
  const bool once = plan.options.counts_micro_steps && plan.options.accumulation_steps == 1;
  if (plan.layout.world == 1 || once) return false;
  return stage >= 2 || plan.options.reduce_each;
}

int num_gradient_buffers(const Plan& plan, int stage) {
  if (effective_stage(plan, stage) < 2) return 0;
  return plan.options.overlap ? 2 : 1;
}

int num_wire_buffers(const Plan& plan, int stage) { return num_gradient_buffers(plan, stage) == 1 ? 1 : 2; }

std::vector<int64_t> buffer_elements(const std::vector<int64_t>& bucket_elements, int num_buffers) {
  std::vector<int64_t> out(std::min(bucket_elements.size(), static_cast<size_t>(num_buffers)), 0);
  for (size_t i = 0; i < bucket_elements.size(); ++i) {
    int64_t& longest = out[i % out.size()];
    longest = std::max(longest, bucket_elements[i]);
  }
  return out;
}

}  // namespace weft::plan
