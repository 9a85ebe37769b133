#include "weft/engine/settings.h"

#include <algorithm>
#include <span>

#include "weft/base/build_info.h"
#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/text.h"

namespace weft::engine {
namespace {

[[noreturn]] void refuse(std::string title, std::string what, std::string fix) {
  throw Error(ErrorKind::kInput,
              {.title = std::move(title), .what = std::move(what), .where = "", .fix = std::move(fix)});
}

std::string brief(const config::Value& value) {
  switch (value.kind) {
    case config::Kind::kBool: return value.boolean ? "true" : "false";
    case config::Kind::kInt:
    case config::Kind::kReal: return cat(value.number());
    case config::Kind::kString: return to_hex(hash128(std::as_bytes(std::span(value.text))));
    default: break;
  }
  std::vector<std::string> items;
  for (const auto& item : value.items) items.push_back(brief(item));
  return cat("[", join(items, ","), "]");
}

// Every argument by itself, so that the one that differs is named.
void add_arguments(std::vector<plan::SharedSetting>& out, std::string_view section,
                   const std::optional<config::Value>& params) {
  if (!params) return;
  for (const auto& member : params->members) {
    const bool plain = std::ranges::all_of(member.key, [](char c) { return c > ' ' && c <= '~'; });
    if (plain) out.push_back({cat(section, ".params.", member.key), brief(member.value)});
  }
}

}  // namespace

void check_supported(const config::Resolved& config) {
  if (config.zero_optimization.stage > 1) {
    refuse("this version of weft trains with stages 0 and 1 only", cat("\"stage\": ", config.zero_optimization.stage),
           "set \"zero_optimization\": {\"stage\": 1}");
  }
  if (config.fp16.enabled || config.bf16.enabled) {
    refuse("this version of weft trains in fp32 only",
           config.fp16.enabled ? "\"fp16\" is enabled" : "\"bf16\" is enabled",
           "leave \"fp16\" and \"bf16\" out; \"communication_data_type\" halves what is sent");
  }
  const auto kept_in = config.data_types.grad_accum_dtype;
  if (kept_in && *kept_in != config::Dtype::kFp32) {
    refuse("this version of weft keeps gradients in fp32", cat("\"grad_accum_dtype\": \"", to_text(*kept_in), "\""),
           "leave \"grad_accum_dtype\" out");
  }
}

void check_types(const plan::ParameterTable& table) {
  for (const int parameter : table.trainable()) {
    if (table[parameter].dtype == plan::Dtype::kFp32) continue;
    refuse(cat("parameter '", table[parameter].name, "' is ", name_of(table[parameter].dtype)), "",
           "this version of weft trains fp32 parameters: model->to(torch::kFloat)");
  }
}

ReduceSettings reduce_settings(const config::Resolved& config, const plan::Plan& plan) {
  const int world = plan.layout.world;
  ReduceSettings out{.overlap = plan.options.overlap,
                     .contiguous = config.zero_optimization.contiguous_gradients,
                     .scatter = plan::effective_stage(plan, plan.options.stage) >= 1,
                     .op = comm::ReduceOp::kSum};
  if (plan.options.wire_dtype) out.wire = memory::scalar_type(*plan.options.wire_dtype);
  const bool mean = config.gradient_allreduce_op == config::ReduceOp::kMean;
  if (config.prescale_gradients) {
    out.before = mean ? 1.0 / world : 1.0;
  } else if (config.gradient_predivide_factor != 1) {
    out.before = 1.0 / config.gradient_predivide_factor;
    out.after = mean ? config.gradient_predivide_factor / world : config.gradient_predivide_factor;
  } else if (mean) {
    out.op = comm::ReduceOp::kMean;
  }
  return out;
}

std::vector<plan::SharedSetting> shared_settings(const config::Resolved& config) {
  std::vector<plan::SharedSetting> out;
  const auto add = [&](std::string name, std::string value) { out.push_back({std::move(name), std::move(value)}); };
  add("weft", std::string(kVersion));
  add("gradient_clipping", cat(config.gradient_clipping));
  add("prescale_gradients", config.prescale_gradients ? "true" : "false");
  add("gradient_predivide_factor", cat(config.gradient_predivide_factor));
  add("gradient_allreduce_op", std::string(to_text(config.gradient_allreduce_op)));
  add("optimizer.type", config.optimizer.type.value_or("none"));
  add("weft.bucket", std::string(to_text(config.weft.bucket)));
  add("zero_optimization.contiguous_gradients", cat(config.zero_optimization.contiguous_gradients));
  add("scheduler.type", config.scheduler.type.value_or("none"));
  add_arguments(out, "optimizer", config.optimizer.params);
  add_arguments(out, "scheduler", config.scheduler.params);
  return out;
}

}  // namespace weft::engine
