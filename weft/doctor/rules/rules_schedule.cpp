// Optimizer and learning-rate schedule: defaults that surprise.
#include "weft/base/text.h"
#include "weft/config/lower.h"
#include "weft/doctor/rules/rule.h"

namespace weft::doctor {
namespace {

using config::Severity;
using config::Value;

const Value* argument(const Subject& subject, std::string_view of, std::string_view name) {
  const auto& r = subject.resolved();
  const auto& params = of == "optimizer" ? r.optimizer.params : r.scheduler.params;
  return params ? params->find(name) : nullptr;
}

std::string schedule(const Subject& subject) { return subject.resolved().scheduler.type.value_or(""); }

void hidden_peak(const Subject& subject, Reporter& reporter) {
  const std::string type = schedule(subject);
  const bool always = type == "WarmupDecayLR";
  const bool then = type == "WarmupLR" && subject.reading.version < config::Version{0, 17, 2};
  if ((!always && !then) || argument(subject, "scheduler", "warmup_max_lr") != nullptr) return;
  const Value* rate = argument(subject, "optimizer", "lr");
  if (rate != nullptr && rate->is_number() && rate->number() == 0.001) return;
  config::Problem& problem =
      reporter.problem("scheduler.params.warmup_max_lr",
                       {cat(type, " without warmup_max_lr climbs to 0.001, whatever the optimizer's lr says",
                            rate != nullptr ? cat(" (", config::to_json(*rate), ")") : ""),
                        cat(type, " 没有 warmup_max_lr 时会升到 0.001，与优化器的 lr 无关",
                            rate != nullptr ? cat("（", config::to_json(*rate), "）") : "")},
                       {"write the peak", "写明峰值学习率"});
  if (rate != nullptr && rate->is_number())
    problem.edits = {{config::Edit::Kind::kSet, "scheduler.params.warmup_max_lr", "", config::to_json(*rate)}};
}

void log_warmup(const Subject& subject, Reporter& reporter) {
  if (!schedule(subject).starts_with("Warmup") || argument(subject, "scheduler", "warmup_type") != nullptr) return;
  reporter.problem(
      "scheduler.params.warmup_type",
      {"the warm-up is logarithmic by default: half of the peak is reached after a few steps",
       "预热默认按对数上升：几步之后就到峰值的一半"},
      {"\"warmup_type\": \"linear\" if a straight line is meant", "若想线性预热，写 \"warmup_type\": \"linear\""});
}

void short_total(const Subject& subject, Reporter& reporter) {
  const Value* total = argument(subject, "scheduler", "total_num_steps");
  const Value* warmup = argument(subject, "scheduler", "warmup_num_steps");
  if (total == nullptr || !total->is_number()) return;
  const double steps = warmup != nullptr && warmup->is_number() ? warmup->number() : 1000;
  if (total->number() >= steps) return;
  reporter.problem("scheduler.params.total_num_steps",
                   {cat("total_num_steps ", config::to_json(*total), " is less than the warm-up's ", steps,
                        ": the peak is never reached"),
                    cat("total_num_steps ", config::to_json(*total), " 小于预热步数 ", steps, "：永远到不了峰值")},
                   {"raise it, or shorten the warm-up", "增大它，或缩短预热"});
}

void adam_is_adamw(const Subject& subject, Reporter& reporter) {
  const auto& optimizer = subject.resolved().optimizer;
  if (config::lower(optimizer.type.value_or("")) != "adam") return;
  const Value* decay = argument(subject, "optimizer", "weight_decay");
  const Value* mode = argument(subject, "optimizer", "adam_w_mode");
  if (decay == nullptr || !decay->is_number() || decay->number() == 0 || mode != nullptr) return;
  reporter.problem("optimizer.type",
                   {"type Adam with weight_decay is AdamW in DeepSpeed: the decay is not part of the gradient",
                    "DeepSpeed 里 type 为 Adam 且有 weight_decay 时实际是 AdamW：衰减不计入梯度"},
                   {"write AdamW if that is meant; \"adam_w_mode\": false for L2 in the gradient",
                    "若是此意请写 AdamW；要 L2 正则请加 \"adam_w_mode\": false"},
                   "\"AdamW\"");
}

void unstated_rate(const Subject& subject, Reporter& reporter) {
  const auto& optimizer = subject.resolved().optimizer;
  if (!optimizer.type || argument(subject, "optimizer", "lr") != nullptr) return;
  reporter.problem("optimizer.params.lr",
                   {"no learning rate is given: Adam's 0.001 is ten times what large models train with",
                    "没有给出学习率：Adam 默认 0.001，是大模型常用值的十倍"},
                   {"write it", "写明学习率"});
}

constexpr Rule kScheduleRules[] = {
    {{"schedule/hidden-peak", Severity::kWarning, "a schedule that climbs to 0.001 instead of the optimizer's lr",
      "调度器会升到 0.001 而不是优化器的 lr",
      "The schedule sets the rate at every step; the optimizer's own is never used.",
      "调度器每步都会设置学习率，优化器里的值不会被用到。"},
     hidden_peak},
    {{"schedule/log-warmup", Severity::kAdvice, "the warm-up is logarithmic", "预热按对数上升",
      "Most papers mean a straight line.", "多数论文指的是线性预热。"},
     log_warmup},
    {{"schedule/short-total", Severity::kWarning, "the schedule ends before its warm-up does", "调度总步数小于预热步数",
      "The rate never reaches its peak.", "学习率永远到不了峰值。"},
     short_total},
    {{"schedule/adam-is-adamw", Severity::kAdvice, "Adam that is AdamW", "写的是 Adam，实际是 AdamW",
      "adam_w_mode is true unless the file says otherwise.", "adam_w_mode 默认为 true。"},
     adam_is_adamw},
    {{"schedule/no-rate", Severity::kAdvice, "an optimizer without a learning rate", "优化器没有学习率",
      "The default is rarely what is meant.", "默认值很少是想要的。"},
     unstated_rate},
};

}  // namespace

std::span<const Rule> schedule_rules() { return kScheduleRules; }

}  // namespace weft::doctor
