#include <algorithm>
#include <array>
#include <string_view>

#include "weft/config/document_impl.h"

namespace weft::config {
namespace {

// Keys that a ds_config has and a training config does not.
constexpr std::array<std::string_view, 5> kAlwaysDeepSpeeds = {"steps_per_print", "train_batch_size",
                                                               "train_micro_batch_size_per_gpu", "wall_clock_breakdown",
                                                               "zero_optimization"};
// A training config has these too, as switches and names; in a ds_config they are objects.
constexpr std::array<std::string_view, 5> kObjectsInDeepSpeeds = {"activation_checkpointing", "bf16", "fp16",
                                                                  "optimizer", "scheduler"};

bool is_ds_config(const Value& object) {
  return std::ranges::any_of(object.members, [](const Member& member) {
    if (std::ranges::find(kAlwaysDeepSpeeds, member.key) != kAlwaysDeepSpeeds.end()) return true;
    return member.value.is_object() &&
           std::ranges::find(kObjectsInDeepSpeeds, member.key) != kObjectsInDeepSpeeds.end();
  });
}

bool is_path(const Value* value) { return value != nullptr && value->kind == Kind::kString && !value->text.empty(); }

// `deepspeed:` of HF's trainer, LLaMA-Factory and axolotl, or `deepspeed_config:` of Accelerate.
YamlConfig config_under(const Value& value, std::string_view file_key) {
  using enum YamlConfig::Kind;
  if (is_path(&value)) return {kReference, &value};
  if (!value.is_object() || value.members.empty()) return {};
  if (const Value* file = value.find(file_key); is_path(file)) return {kReference, file};
  return {kInline, &value};
}

}  // namespace

YamlConfig find_config(const Value& training) {
  using enum YamlConfig::Kind;
  if (const Value* value = training.find("deepspeed")) {
    if (const YamlConfig found = config_under(*value, "config_file"); found.kind != kNone) return found;
  }
  if (const Value* value = training.find("deepspeed_config")) {
    const YamlConfig found = config_under(*value, "deepspeed_config_file");
    if (found.kind == kInline && !is_ds_config(*found.value)) return {kAccelerate, found.value};
    if (found.kind != kNone) return found;
  }
  return is_ds_config(training) ? YamlConfig{kWhole, &training} : YamlConfig{};
}

}  // namespace weft::config
