#include "weft/base/text.h"
#include "weft/config/reading_impl.h"

namespace weft::config {
namespace {

// Trainers' names for the same argument, HF's first.
struct TrainingName {
  std::string_view hf;
  std::string_view found_as;
};

constexpr TrainingName kNames[] = {
    {"per_device_train_batch_size", "per_device_train_batch_size"},
    {"per_device_train_batch_size", "micro_batch_size"},  // axolotl
    {"gradient_accumulation_steps", "gradient_accumulation_steps"},
    {"learning_rate", "learning_rate"},
    {"weight_decay", "weight_decay"},
    {"adam_beta1", "adam_beta1"},
    {"adam_beta2", "adam_beta2"},
    {"adam_epsilon", "adam_epsilon"},
    {"max_grad_norm", "max_grad_norm"},
    {"warmup_steps", "warmup_steps"},
    {"max_steps", "max_steps"},
    {"bf16", "bf16"},
    {"fp16", "fp16"},
    {"hidden_size", "hidden_size"},
};

// A setting and the training argument that must agree with it.
struct Agreement {
  std::string_view path;
  std::string_view fact;
};

constexpr Agreement kAgreements[] = {
    {"train_micro_batch_size_per_gpu", "per_device_train_batch_size"},
    {"gradient_accumulation_steps", "gradient_accumulation_steps"},
    {"gradient_clipping", "max_grad_norm"},
    {"bf16.enabled", "bf16"},
    {"fp16.enabled", "fp16"},
};

double number_of(const Value& value) { return value.kind == Kind::kBool ? (value.boolean ? 1 : 0) : value.number(); }
bool is_number_or_switch(const Value& value) { return value.is_number() || value.kind == Kind::kBool; }

}  // namespace

void check_facts(Reading& reading, const Facts& facts) {
  for (const Agreement& agreement : kAgreements) {
    const auto fact = facts.find(agreement.fact);
    const Value& value = reading.value(agreement.path);
    if (fact == facts.end() || !reading.given(agreement.path) || !is_number_or_switch(value)) continue;
    if (!is_number_or_switch(fact->second.value) || number_of(fact->second.value) == number_of(value)) continue;
    const std::string said = to_json(fact->second.value), here = reading.shown(agreement.path);
    Problem& problem =
        report(reading, "auto/disagrees", agreement.path, reading.span_of(agreement.path),
               {cat("the file says ", here, ", ", fact->second.from, " says ", said, "; HF's Trainer refuses to start"),
                cat("文件里是 ", here, "，而 ", fact->second.from, " 是 ", said, "；HF Trainer 会拒绝启动")},
               {"make them agree, or write \"auto\"", "改成一致，或写 \"auto\""});
    problem.current = here;
    problem.suggested = said;
  }
}

Fact int_fact(int64_t value, std::string from) { return {int_value(value), std::move(from)}; }
Fact real_fact(double value, std::string from) { return {real_value(value), std::move(from)}; }
Fact text_fact(std::string_view value, std::string from) { return {text_value(value), std::move(from)}; }
Fact bool_fact(bool value, std::string from) { return {bool_value(value), std::move(from)}; }

Facts facts_of_training(const Document& document) {
  Facts facts;
  if (!document.training.is_object()) return facts;
  for (const TrainingName& name : kNames) {
    const Value* value = document.training.find(name.found_as);
    if (value == nullptr || (!value->is_number() && value->kind != Kind::kBool)) continue;
    facts.emplace(name.hf, Fact{*value, document.outer->where(value->span)});
  }
  return facts;
}

}  // namespace weft::config
