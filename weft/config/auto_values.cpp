// "auto", as HF's Trainer resolves it: from the training arguments and the model's hidden size. DeepSpeed itself never does;
// it drops the key inside its models and fails elsewhere.
#include <algorithm>
#include <cmath>
#include <functional>

#include "weft/base/text.h"
#include "weft/config/reading_impl.h"

namespace weft::config {
namespace {

// A training argument and HF's default for it.
struct TrainerDefault {
  std::string_view name;
  double value;
};

constexpr TrainerDefault kTrainerDefaults[] = {
    {"per_device_train_batch_size", 8},
    {"gradient_accumulation_steps", 1},
    {"max_grad_norm", 1.0},
    {"learning_rate", 5e-5},
    {"adam_beta1", 0.9},
    {"adam_beta2", 0.999},
    {"adam_epsilon", 1e-8},
    {"weight_decay", 0.0},
    {"warmup_steps", 0},
    {"fp16", 0},
    {"bf16", 0},
};

struct Resolution {
  Value value;
  Words note;
};

class AutoResolver {
 public:
  AutoResolver(Reading& reading, const Facts& facts) : reading_(reading), facts_(facts) {}

  void setting(const AutoSetting& found) {
    const std::string path(found.setting->path);
    const auto resolution = resolve(path);
    if (resolution) {
      set_value(reading_, path, resolution->value, {Origin::Kind::kAuto, found.span, resolution->note});
      return;
    }
    Problem& problem = report(
        reading_, needs_hidden(path) ? "auto/needs-hidden-size" : "auto/default", path, found.span,
        {cat(path, " is \"auto\" and ",
             needs_hidden(path) ? "needs the model's hidden size; without it DeepSpeed's default stands: "
                                : "nobody resolves it; DeepSpeed takes its default: ",
             to_json(reading_.value(path))),
         cat(path, " 是 \"auto\"，",
             needs_hidden(path) ? "需要模型的 hidden size；没有它就用 DeepSpeed 的默认值："
                                : "没有规则能解析它，DeepSpeed 会用默认值：",
             to_json(reading_.value(path)))},
        needs_hidden(path) ? Words{"give --hidden-size, or write a number", "用 --hidden-size 给出，或直接写数字"}
                           : Words{"write the value", "写明具体的值"});
    problem.current = "\"auto\"";
    reading_.origins[index_of(*found.setting)].note = {"\"auto\" without a rule: the default",
                                                       "\"auto\" 无规则可用：取默认值"};
  }

  // optimizer.params and scheduler.params: the values "auto" inside an object that goes on as it is.
  void parameters(std::string_view path) {
    const Value& now = reading_.value(path);
    if (!now.is_object()) return;
    Value object = now;
    for (Member& member : object.members) {
      if (!member.value.is_auto()) continue;
      const std::string inner = cat(path, ".", member.key);
      const auto resolution = resolve(inner);
      if (!resolution) {
        report_unresolved(inner, member.value.span);
        continue;
      }
      const Span span = member.value.span;
      member.value = resolution->value;
      member.value.span = span;
    }
    Origin origin = reading_.origin(path);
    set_value(reading_, path, std::move(object), std::move(origin));
  }

 private:
  static bool needs_hidden(std::string_view path) {
    return path == "zero_optimization.reduce_bucket_size" || path == "zero_optimization.stage3_prefetch_bucket_size" ||
           path == "zero_optimization.stage3_param_persistence_threshold";
  }

  void report_unresolved(const std::string& path, Span span) {
    Problem& problem = report(
        reading_, "auto/unresolved", path, span,
        {cat(path, " is \"auto\", and nothing here says what it is; DeepSpeed would hand the word to the constructor"),
         cat(path, " 是 \"auto\"，这里无从得知它的值；DeepSpeed 会把这个词原样传给构造函数")},
        {path.ends_with("total_num_steps") ? "give --total-steps, or write a number" : "write a number",
         path.ends_with("total_num_steps") ? "用 --total-steps 给出，或直接写数字" : "直接写数字"});
    problem.current = "\"auto\"";
  }

  std::optional<Resolution> resolve(const std::string& path) const {
    if (needs_hidden(path)) return from_hidden(path);
    if (path == "train_batch_size") return Resolution{Value{}, {}};  // the batch triangle fills it in
    if (path == "train_micro_batch_size_per_gpu") return as_int("per_device_train_batch_size");
    if (path == "gradient_accumulation_steps") return as_int("gradient_accumulation_steps");
    if (path == "gradient_clipping") return as_real("max_grad_norm");
    if (path == "fp16.enabled") return as_bool("fp16");
    if (path == "bf16.enabled") return as_bool("bf16");
    if (path == "zero_optimization.stage3_gather_16bit_weights_on_model_save")
      return constant(bool_value(false), "zero3_save_16bit_model: false");
    if (path == "optimizer.params.lr") return as_real("learning_rate");
    if (path == "optimizer.params.betas") return betas();
    if (path == "optimizer.params.eps") return as_real("adam_epsilon");
    if (path == "optimizer.params.weight_decay") return as_real("weight_decay");
    if (path == "scheduler.params.warmup_min_lr") return constant(int_value(0), "0");
    if (path == "scheduler.params.warmup_max_lr") return as_real("learning_rate");
    if (path == "scheduler.params.warmup_num_steps") return warmup_steps();
    if (path == "scheduler.params.total_num_steps") return total_steps();
    return std::nullopt;
  }

  static Resolution constant(Value value, std::string_view what) {
    return {std::move(value), {cat("HF's rule: ", what), cat("HF 规则：", what)}};
  }

  struct Number {
    double value;
    Words note;
  };

  std::optional<Number> known(std::string_view name) const {
    const auto found = facts_.find(name);
    if (found == facts_.end()) return std::nullopt;
    const Value& value = found->second.value;
    const double number = value.kind == Kind::kBool ? (value.boolean ? 1 : 0)
                          : value.is_number()       ? value.number()
                                                    : NAN;
    if (std::isnan(number)) return std::nullopt;
    return Number{number,
                  {cat("HF's rule: ", name, ", from ", found->second.from),
                   cat("HF 规则：", name, "，来自 ", found->second.from)}};
  }

  Number trainer(std::string_view name) const {
    if (const auto number = known(name)) return *number;
    for (const TrainerDefault& standard : kTrainerDefaults) {
      if (standard.name == name) {
        return {standard.value, {cat("HF's rule: ", name, ", its default"), cat("HF 规则：", name, " 的默认值")}};
      }
    }
    return {0, {}};
  }

  Resolution as_int(std::string_view name) const {
    const Number number = trainer(name);
    return {int_value(static_cast<int64_t>(number.value)), number.note};
  }
  Resolution as_real(std::string_view name) const {
    const Number number = trainer(name);
    return {real_value(number.value), number.note};
  }
  Resolution as_bool(std::string_view name) const {
    const Number number = trainer(name);
    return {bool_value(number.value != 0), number.note};
  }

  Resolution betas() const {
    Value list;
    list.kind = Kind::kArray;
    list.items = {real_value(trainer("adam_beta1").value), real_value(trainer("adam_beta2").value)};
    return {list, {"HF's rule: adam_beta1, adam_beta2", "HF 规则：adam_beta1、adam_beta2"}};
  }

  Resolution warmup_steps() const {
    const Number number = trainer("warmup_steps");
    return {int_value(std::max<int64_t>(1, static_cast<int64_t>(number.value))), number.note};
  }

  std::optional<Resolution> total_steps() const {
    const auto number = known("max_steps");
    if (!number || number->value <= 0) return std::nullopt;
    return Resolution{int_value(static_cast<int64_t>(number->value)), number->note};
  }

  std::optional<Resolution> from_hidden(std::string_view path) const {
    const auto hidden = known("hidden_size");
    if (!hidden || hidden->value < 1 || hidden->value > 1e9) return std::nullopt;
    const double h = hidden->value;
    if (path.ends_with("reduce_bucket_size")) return square(h * h, "hidden²", *hidden);
    if (path.ends_with("prefetch_bucket_size")) return square(0.9 * h * h, "0.9·hidden²", *hidden);
    return square(10 * h, "10·hidden", *hidden);
  }

  static Resolution square(double value, std::string_view formula, const Number& hidden) {
    return {int_value(static_cast<int64_t>(value)),
            {cat(hidden.note.en, ": ", formula), cat(hidden.note.zh, "：", formula)}};
  }

  Reading& reading_;
  const Facts& facts_;
};

}  // namespace

void resolve_auto(Reading& reading, const std::vector<AutoSetting>& autos, const Facts& facts) {
  AutoResolver resolver(reading, facts);
  for (const AutoSetting& found : autos) resolver.setting(found);
  resolver.parameters("optimizer.params");
  resolver.parameters("scheduler.params");
}

}  // namespace weft::config
