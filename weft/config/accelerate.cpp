#include <algorithm>
#include <array>
#include <string_view>

#include "weft/base/text.h"
#include "weft/config/document_impl.h"

namespace weft::config {
namespace {

struct Renamed {
  std::string_view key;   // Accelerate's
  std::string_view path;  // in a ds_config
};

constexpr Renamed kRenamed[] = {
    {"zero_stage", "zero_optimization.stage"},
    {"gradient_accumulation_steps", "gradient_accumulation_steps"},
    {"gradient_clipping", "gradient_clipping"},
    {"offload_optimizer_device", "zero_optimization.offload_optimizer.device"},
    {"offload_optimizer_nvme_path", "zero_optimization.offload_optimizer.nvme_path"},
    {"offload_param_device", "zero_optimization.offload_param.device"},
    {"offload_param_nvme_path", "zero_optimization.offload_param.nvme_path"},
    {"zero3_save_16bit_model", "zero_optimization.stage3_gather_16bit_weights_on_model_save"},
};

// These are for Accelerate and its launcher; DeepSpeed never sees them.
constexpr std::array<std::string_view, 9> kAcceleratesOwn = {
    "deepspeed_config_file",
    "deepspeed_exclusion_filter",
    "deepspeed_hostfile",
    "deepspeed_inclusion_filter",
    "deepspeed_moe_layer_cls_names",
    "deepspeed_multinode_launcher",
    "zero3_init_flag",
    "zero_quantized_nontrainable_weights",
    "msamp_opt_level",
};

// Puts a member at a dotted path; the objects on the way stand where the first member that needs them does.
void put(Value& root, std::string_view path, const Member& from) {
  Value* at = &root;
  for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    const std::string_view key = path.substr(0, dot);
    auto found = std::ranges::find(at->members, key, &Member::key);
    if (found == at->members.end()) {
      const Span whole{from.key_span.begin, from.value.span.end};
      at->members.push_back({std::string(key), from.key_span, {.kind = Kind::kObject, .span = whole}});
      found = at->members.end() - 1;
    }
    at = &found->value;
    path.remove_prefix(dot + 1);
  }
  if (at->find(path) == nullptr) at->members.push_back({std::string(path), from.key_span, from.value});
}

// "none" and null stand for a path that is not given.
bool is_absent(const Member& member) {
  const bool none = member.value.kind == Kind::kString && member.value.text == "none";
  return member.value.kind == Kind::kNull || (none && member.key.ends_with("_nvme_path"));
}

void add_precision(Value& root, const Value& training) {
  const Member* precision = training.find_member("mixed_precision");
  if (precision == nullptr || precision->value.kind != Kind::kString) return;
  const std::string& name = precision->value.text;
  if (name != "bf16" && name != "fp16") return;
  const Value enabled{.kind = Kind::kBool, .span = precision->value.span, .boolean = true};
  put(root, cat(name, ".enabled"), {"enabled", precision->key_span, enabled});
}

// Accelerate leaves both to be worked out when training starts.
void add_batch(Value& root, Span span) {
  for (const std::string_view key : {"train_batch_size", "train_micro_batch_size_per_gpu"}) {
    const Value automatic{.kind = Kind::kString, .span = span, .text = "auto"};
    if (root.find(key) == nullptr) root.members.push_back({std::string(key), span, automatic});
  }
}

}  // namespace

Value accelerate_config(const Value& training, const Value& config) {
  Value root{.kind = Kind::kObject, .span = config.span};
  for (const Member& member : config.members) {
    if (std::ranges::find(kAcceleratesOwn, member.key) != kAcceleratesOwn.end() || is_absent(member)) continue;
    const auto* renamed = std::ranges::find(kRenamed, member.key, &Renamed::key);
    // What neither knows goes through as it is: the check of keys names it.
    put(root, renamed == std::end(kRenamed) ? member.key : renamed->path, member);
  }
  add_precision(root, training);
  const Member* holder = training.find_member("deepspeed_config");
  add_batch(root, holder == nullptr ? config.span : holder->key_span);
  return root;
}

}  // namespace weft::config
