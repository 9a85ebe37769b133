#include "weft/plan/agreement.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/text.h"
#include "weft/plan/description_impl.h"

namespace weft::plan {
namespace {

std::string dtype_or(const std::optional<Dtype>& dtype, std::string_view otherwise) {
  return std::string(dtype ? name_of(*dtype) : otherwise);
}

std::vector<SharedSetting> settings_of(const PlanOptions& options) {
  return {{"world", cat(options.layout.world)},
          {"zero_optimization.stage", cat(options.stage)},
          {"gradient_accumulation_steps", cat(options.accumulation_steps)},
          {"zero_optimization.reduce_bucket_size", cat(options.layout.bucket_elements)},
          {"first_bucket_bytes", cat(options.layout.first_bucket_bytes)},
          {"slice_multiple", cat(options.layout.slice_multiple)},
          {"zero_optimization.overlap_comm", cat(options.overlap)},
          {"data_types.grad_accum_dtype", dtype_or(options.gradient_dtype, "as-parameters")},
          {"communication_data_type", dtype_or(options.wire_dtype, "as-gradients")},
          {"weft.shard_update", cat(options.shard_update)},
          {"weft.common_parameters", cat(options.common_parameters)},
          {"weft.reduce_each", options.reduce_each ? "micro_step" : "step"},
          {"optimizer.state_bytes_per_element", cat(options.optimizer.state_bytes_per_element)},
          {"optimizer.fp32_copy", cat(options.optimizer.fp32_copy)},
          {"zero_optimization.stage3_max_live_parameters", cat(options.live_elements)}};
}

Hash128 hash_text(std::string_view text) { return hash128(std::as_bytes(std::span(text))); }

// Says how one thing differs between two ranks.
class Teller {
 public:
  Teller(int rank_a, int rank_b) : rank_a_(rank_a), rank_b_(rank_b) {}

  std::string differ(std::string_view subject, std::string_view a, std::string_view b) const {
    return cat(subject, " ", a, " on rank ", rank_a_, " and ", b, " on rank ", rank_b_);
  }
  std::string count(std::string_view what, size_t a, size_t b, std::string_view extra) const {
    return cat("rank ", rank_a_, " has ", a, " ", what, " and rank ", rank_b_, " has ", b, extra.empty() ? "" : "; ",
               extra, extra.empty() ? "" : cat(" is only on rank ", a > b ? rank_a_ : rank_b_));
  }

 private:
  int rank_a_, rank_b_;
};

using Difference = std::optional<std::string>;

const SharedSetting* find(const std::vector<SharedSetting>& settings, std::string_view name) {
  const auto found = std::ranges::find(settings, name, &SharedSetting::name);
  return found == settings.end() ? nullptr : &*found;
}

Difference in_settings(const Description& a, const Description& b, const Teller& tell) {
  for (const SharedSetting& setting : a.settings) {
    const SharedSetting* other = find(b.settings, setting.name);
    const std::string_view value = other != nullptr ? std::string_view(other->value) : "absent";
    if (other == nullptr || other->value != setting.value)
      return tell.differ(cat("setting '", setting.name, "' is"), setting.value, value);
  }
  for (const SharedSetting& setting : b.settings) {
    if (find(a.settings, setting.name) == nullptr)
      return tell.differ(cat("setting '", setting.name, "' is"), "absent", setting.value);
  }
  if (a.settings != b.settings) return tell.differ("the order of the settings is", "one", "another");
  return std::nullopt;
}

std::string tie_text(const Parameter& parameter) {
  return parameter.tied_to ? cat("tied to parameter ", *parameter.tied_to) : std::string("not tied");
}

Difference in_parameter(int number, const Parameter& a, const Parameter& b, const Teller& tell) {
  if (a.name != b.name)
    return tell.differ(cat("parameter ", number, " is"), cat("'", a.name, "'"), cat("'", b.name, "'"));
  const std::string who = parameter_text(number, a.name);
  if (a.shape != b.shape) return tell.differ(cat(who, " has shape"), shape_text(a.shape), shape_text(b.shape));
  if (a.dtype != b.dtype) return tell.differ(cat(who, " is"), name_of(a.dtype), name_of(b.dtype));
  const auto frozen_text = [](const Parameter& p) { return p.frozen ? "frozen" : "trainable"; };
  if (a.frozen != b.frozen) return tell.differ(cat(who, " is"), frozen_text(a), frozen_text(b));
  if (a.tied_to != b.tied_to) return tell.differ(cat(who, " is"), tie_text(a), tie_text(b));
  return std::nullopt;
}

Difference in_parameters(const Description& a, const Description& b, const Teller& tell) {
  const size_t shared = std::min(a.parameters.size(), b.parameters.size());
  for (size_t i = 0; i < shared; ++i) {
    if (auto found = in_parameter(static_cast<int>(i), a.parameters[i], b.parameters[i], tell)) return found;
  }
  if (a.parameters.size() == b.parameters.size()) return std::nullopt;
  const Description& longer = a.parameters.size() > b.parameters.size() ? a : b;
  return tell.count("parameters", a.parameters.size(), b.parameters.size(),
                    parameter_text(static_cast<int>(shared), longer.parameters[shared].name));
}

std::string ready_text(const Description& description, int parameter) {
  const auto at = static_cast<size_t>(parameter);
  return parameter_text(parameter, at < description.parameters.size() ? description.parameters[at].name : "?");
}

Difference in_order(const Description& a, const Description& b, const Teller& tell) {
  const size_t shared = std::min(a.ready_order.size(), b.ready_order.size());
  for (size_t i = 0; i < shared; ++i) {
    if (a.ready_order[i] != b.ready_order[i])
      return tell.differ(cat("gradient ", i, " of the ready order is that of"), ready_text(a, a.ready_order[i]),
                         ready_text(b, b.ready_order[i]));
  }
  if (a.ready_order.size() == b.ready_order.size()) return std::nullopt;
  return tell.count("gradients in its ready order", a.ready_order.size(), b.ready_order.size(), "");
}

std::string extent_text(const BucketExtent& bucket) {
  return cat(name_of(bucket.dtype), bucket.frozen ? " frozen, " : ", ", bucket.num_parameters, " parameters, ",
             bucket.num_elements, " elements");
}

Difference in_buckets(const Description& a, const Description& b, const Teller& tell) {
  const size_t shared = std::min(a.buckets.size(), b.buckets.size());
  for (size_t i = 0; i < shared; ++i) {
    if (a.buckets[i] != b.buckets[i])
      return tell.differ(cat("bucket ", i, " is"), extent_text(a.buckets[i]), extent_text(b.buckets[i]));
  }
  if (a.buckets.size() == b.buckets.size()) return std::nullopt;
  return tell.count("buckets", a.buckets.size(), b.buckets.size(), "");
}

}  // namespace

Description describe(const Plan& plan, const std::vector<SharedSetting>& more) {
  Description out{
      .settings = settings_of(plan.options), .parameters = plan.table.all(), .ready_order = plan.layout.ready_order};
  for (const SharedSetting& setting : more) {
    WEFT_CHECK(is_setting_name(setting.name) && is_one_line(setting.value));
    WEFT_CHECK(find(out.settings, setting.name) == nullptr);
    out.settings.push_back(setting);
  }
  for (const Bucket& bucket : plan.layout.buckets)
    out.buckets.push_back({bucket.dtype, bucket.frozen, std::ssize(bucket.places), bucket.num_elements});
  return out;
}

AgreementHashes hashes_of(const Description& description) {
  const DescriptionParts parts = parts_of(description);
  return {.settings = hash_text(parts.settings),
          .parameters = hash_text(parts.parameters),
          .ready_order = hash_text(parts.ready_order),
          .buckets = hash_text(parts.buckets),
          .all = hash_text(to_text(description))};
}

std::optional<std::string> first_difference(const Description& a, const Description& b, int rank_a, int rank_b) {
  const Teller tell(rank_a, rank_b);
  if (auto found = in_settings(a, b, tell)) return found;
  if (auto found = in_parameters(a, b, tell)) return found;
  if (auto found = in_order(a, b, tell)) return found;
  return in_buckets(a, b, tell);
}

}  // namespace weft::plan
