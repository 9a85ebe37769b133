// What stands in optimizer.params and scheduler.params: values that weft's optimizers and schedules cannot work with, each at its line.
// They would refuse them too, but only once a run has been started.
#include <algorithm>

#include "weft/base/text.h"
#include "weft/config/lower.h"
#include "weft/config/offered.h"
#include "weft/config/optimizer_names.h"
#include "weft/config/reading_impl.h"

namespace weft::config {
namespace {

enum class Takes {
  kNumber,
  kNotNegative,
  kPositive,
  kInteger,
  kPositiveInteger,
  kFlag,
  kBetas,
  kPerGroup,  // a number, or a list of them
  kWarmupType,
};

struct Taken {
  std::string_view name;
  Takes takes;
  std::string_view type = {};  // where types disagree about the name
};

constexpr Taken kOptimizerValues[] = {
    {"lr", Takes::kNotNegative},
    {"eps", Takes::kNotNegative},
    {"weight_decay", Takes::kNotNegative},
    {"momentum", Takes::kNotNegative},
    {"dampening", Takes::kNumber},
    {"lr_decay", Takes::kNotNegative},
    {"initial_accumulator_value", Takes::kNotNegative},
    {"max_coeff", Takes::kNotNegative},
    {"min_coeff", Takes::kNotNegative},
    {"betas", Takes::kBetas},
    {"bias_correction", Takes::kFlag},
    {"adam_w_mode", Takes::kFlag},
    {"torch_adam", Takes::kFlag},
    {"eps_inside_sqrt", Takes::kFlag},
    {"nesterov", Takes::kFlag},
    {"amsgrad", Takes::kFlag},
    {"maximize", Takes::kFlag},
    {"fp32_optimizer_states", Takes::kFlag},
};

constexpr Taken kScheduleValues[] = {
    {"warmup_min_lr", Takes::kPerGroup},
    {"warmup_max_lr", Takes::kPerGroup},
    {"warmup_num_steps", Takes::kPositiveInteger},
    {"warmup_type", Takes::kWarmupType},
    {"last_batch_iteration", Takes::kInteger},
    {"total_num_steps", Takes::kInteger},
    {"warmup_min_ratio", Takes::kNumber},
    {"cos_min_ratio", Takes::kNumber},
    {"cycle_min_lr", Takes::kPerGroup},
    {"cycle_max_lr", Takes::kPerGroup},
    {"decay_lr_rate", Takes::kNumber},
    {"cycle_first_step_size", Takes::kPositive},
    {"cycle_second_step_size", Takes::kNotNegative},
    {"cycle_first_stair_count", Takes::kInteger},
    {"cycle_second_stair_count", Takes::kInteger},
    {"decay_step_size", Takes::kNumber},
    {"cycle_momentum", Takes::kFlag},
    {"cycle_min_mom", Takes::kPerGroup},
    {"cycle_max_mom", Takes::kPerGroup},
    {"decay_mom_rate", Takes::kNumber},
    {"lr_range_test_min_lr", Takes::kPerGroup},
    {"lr_range_test_step_size", Takes::kPositiveInteger},
    {"lr_range_test_step_rate", Takes::kNumber},
    {"lr_range_test_staircase", Takes::kFlag},
    {"factor", Takes::kNumber},
    {"start_factor", Takes::kNumber},
    {"end_factor", Takes::kNumber},
    {"total_iters", Takes::kPositiveInteger, "LinearLR"},
    {"total_iters", Takes::kInteger},
    {"T_max", Takes::kPositiveInteger},
    {"eta_min", Takes::kNumber},
};

// Arguments that are fine for DeepSpeed with a value that asks for what weft has not got.
struct Refused {
  std::string_view name;
  bool when;
  std::string_view en, zh, fix, fix_zh;
};

constexpr Refused kRefused[] = {
    {"amsgrad", true, "weft has no AMSGrad", "weft 没有 AMSGrad", "leave it out", "删除它"},
    {"maximize", true, "weft minimizes", "weft 只做最小化", "negate the loss, and leave it out",
     "把损失取负，并删除它"},
    {"fp32_optimizer_states", false, "weft keeps moments in fp32", "weft 用 fp32 保存动量",
     "leave it out; bf16.bf16_optimizer_states keeps them in bf16, beside master weights in bf16",
     "删除它；若主权重也用 bf16，可用 bf16.bf16_optimizer_states 把动量存成 bf16"},
};

bool all_numbers(const Value& value) {
  return value.kind == Kind::kArray && std::ranges::all_of(value.items, &Value::is_number);
}

bool is_beta(const Value& value) { return value.is_number() && value.number() >= 0 && value.number() < 1; }

bool fits(Takes takes, const Value& value) {
  switch (takes) {
    case Takes::kNumber: return value.is_number();
    case Takes::kNotNegative: return value.is_number() && value.number() >= 0;
    case Takes::kPositive: return value.is_number() && value.number() > 0;
    case Takes::kInteger: return value.kind == Kind::kInt;
    case Takes::kPositiveInteger: return value.kind == Kind::kInt && value.integer > 0;
    case Takes::kFlag: return value.kind == Kind::kBool;
    case Takes::kBetas:
      return value.kind == Kind::kArray && value.items.size() == 2 && std::ranges::all_of(value.items, is_beta);
    case Takes::kPerGroup: return value.is_number() || all_numbers(value);
    case Takes::kWarmupType: return value.kind == Kind::kString && (value.text == "log" || value.text == "linear");
  }
  return true;
}

Words words_of(Takes takes) {
  switch (takes) {
    case Takes::kNumber: return {"a number", "数"};
    case Takes::kNotNegative: return {"a number, 0 or more", "不小于 0 的数"};
    case Takes::kPositive: return {"a number above 0", "大于 0 的数"};
    case Takes::kInteger: return {"an integer", "整数"};
    case Takes::kPositiveInteger: return {"an integer above 0", "大于 0 的整数"};
    case Takes::kFlag: return {"true or false", "true 或 false"};
    case Takes::kBetas: return {"two numbers, each at least 0 and below 1", "两个数，都不小于 0 且小于 1"};
    case Takes::kPerGroup:
      return {"a number, or a list with one for each parameter group", "一个数，或每个参数组一个数的列表"};
    case Takes::kWarmupType: return {"\"log\" or \"linear\"", "\"log\" 或 \"linear\""};
  }
  return {};
}

const Taken* find_taken(std::string_view of, std::string_view type, std::string_view name) {
  const auto rows =
      of == "optimizer" ? std::span<const Taken>(kOptimizerValues) : std::span<const Taken>(kScheduleValues);
  for (const Taken& row : rows) {
    if (row.name == name && (row.type.empty() || row.type == type)) return &row;
  }
  return nullptr;
}

void report_value(Reading& reading, const std::string& path, const Value& value, const Words& expected) {
  const std::string said = overlaps(reading.secrets, value.span) ? std::string(kNotShown) : to_json(value);
  report(reading, "arguments/value", path, value.span,
         {cat(path, " is ", said, ", expected ", expected.en), cat(path, " 是 ", said, "，应为", expected.zh)},
         {cat("write ", expected.en), cat("写成", expected.zh)})
      .current = said;
}

void check_refused(Reading& reading, const std::string& path, const Member& member) {
  for (const Refused& row : kRefused) {
    if (row.name != member.key || member.value.kind != Kind::kBool || member.value.boolean != row.when) continue;
    Problem& problem = report(reading, "arguments/not-offered", path, member.value.span,
                              {cat(path, " is ", row.when ? "true" : "false", ": ", row.en),
                               cat(path, " 是 ", row.when ? "true" : "false", "：", row.zh)},
                              {std::string(row.fix), std::string(row.fix_zh)});
    problem.current = row.when ? "true" : "false";
  }
}

double number_of(const Value& params, std::string_view name, double fallback) {
  const Value* const value = params.find(name);
  return value != nullptr && value->is_number() ? value->number() : fallback;
}

bool flag_of(const Value& params, std::string_view name) {
  const Value* const value = params.find(name);
  return value != nullptr && value->kind == Kind::kBool && value->boolean;
}

// What only two arguments together can be wrong about.
void check_together(Reading& reading, std::string_view type, const Value& params) {
  const bool is_alone = number_of(params, "momentum", 0) == 0 || number_of(params, "dampening", 0) != 0;
  if (type == "SGD" && flag_of(params, "nesterov") && is_alone) {
    report(reading, "arguments/value", "optimizer.params.nesterov", reading.span_of("optimizer.params.nesterov"),
           {"nesterov needs a momentum above 0 and no dampening", "nesterov 需要大于 0 的 momentum，且没有 dampening"},
           {"set momentum, and leave dampening out", "设置 momentum，并去掉 dampening"})
        .deepspeed_refuses = true;
  }
  const double low = number_of(params, "min_coeff", 0.01), high = number_of(params, "max_coeff", 10);
  if (optimizer_kind(type) != "lamb" || low <= high) return;
  const std::string path =
      params.find("min_coeff") != nullptr ? "optimizer.params.min_coeff" : "optimizer.params.max_coeff";
  report(reading, "arguments/value", path, reading.span_of(path),
         {cat("min_coeff is ", low, " and max_coeff ", high, ", expected the lower bound first"),
          cat("min_coeff 是 ", low, "，max_coeff 是 ", high, "；下限应不大于上限")},
         {"set min_coeff below max_coeff", "让 min_coeff 小于 max_coeff"});
}

}  // namespace

void check_argument_values(Reading& reading, std::string_view of) {
  const Value type = reading.value(cat(of, ".type")), params = reading.value(cat(of, ".params"));
  if (type.kind != Kind::kString || !is_offered(of, type.text) || !params.is_object()) return;
  for (const Member& member : params.members) {
    const std::string path = cat(of, ".params.", member.key);
    const Taken* const taken = find_taken(of, type.text, member.key);
    if (taken == nullptr || member.value.kind == Kind::kNull || has_error_at(reading, path)) continue;
    if (!fits(taken->takes, member.value)) report_value(reading, path, member.value, words_of(taken->takes));
    if (of == "optimizer") check_refused(reading, path, member);
  }
  if (of == "optimizer") check_together(reading, type.text, params);
}

}  // namespace weft::config
