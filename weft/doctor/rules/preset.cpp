#include "weft/doctor/rules/preset.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::doctor {
namespace {

using config::Language;

// Micro batches that fit GPUs of that memory, as published for stage 2 with bf16.
int64_t micro_batch_for(int64_t gpu_gib) {
  if (gpu_gib >= 76) return 32;
  if (gpu_gib >= 38) return 16;
  if (gpu_gib >= 22) return 8;
  return 4;
}

int64_t gpu_gib(Preset preset, const Machine& machine) {
  if (machine.gpu_bytes) return *machine.gpu_bytes >> 30;
  return preset == Preset::kStandard ? 24 : 40;
}

std::string bucket(Preset preset, const Machine& machine) {
  if (machine.params.value_or(0) > 50e9) return "200000000";
  if (machine.link) return is_low_bandwidth(*machine.link) ? "100000000" : "500000000";
  return preset == Preset::kStandard ? "200000000" : "500000000";
}

class Writer {
 public:
  Writer(Preset preset, int64_t world, const Machine& machine, Language language)
      : preset_(preset),
        world_(world),
        machine_(machine),
        language_(language),
        micro_(micro_batch_for(gpu_gib(preset, machine))) {}

  std::string text() {
    opening();
    batch();
    zero();
    if (fast()) optimizer();
    if (fast()) activation_checkpointing();
    closing();
    return std::move(out_);
  }

 private:
  bool fast() const { return preset_ == Preset::kHighPerformance; }
  bool sharded_parameters() const { return machine_.params.value_or(0) > 20e9; }

  void line(std::string_view code) { out_ += cat(code, "\n"); }
  void line(std::string_view code, std::string_view en, std::string_view zh) {
    out_ += cat(code, "  // ", language_ == Language::kChinese ? zh : en, "\n");
  }

  void opening() {
    const std::string name = fast() ? "high-performance" : "standard";
    out_ += language_ == Language::kChinese
                ? cat("// weft check --preset ", name, "：", world_, " 卡，每卡 ", gpu_gib(preset_, machine_), " GiB\n")
                : cat("// weft check --preset ", name, ": ", world_, world_ == 1 ? " rank, " : " ranks, ",
                      gpu_gib(preset_, machine_), " GiB a GPU\n");
    line("{");
  }

  void batch() {
    line(cat("  \"train_batch_size\": ", micro_ * 4 * world_, ","),
         cat(micro_, " x 4 x ", world_, world_ == 1 ? " rank" : " ranks"), cat(micro_, " × 4 × ", world_, " 卡"));
    line(cat("  \"train_micro_batch_size_per_gpu\": ", micro_, ","));
    line("  \"gradient_accumulation_steps\": 4,");
    line("  \"gradient_clipping\": 1.0,");
    line("  \"steps_per_print\": 50,", "often enough to see trouble", "及时看到问题");
    line("  \"bf16\": { \"enabled\": true },", "fp32's range: no loss scale",
         "数值范围与 fp32 相同，不需要 loss scale");
  }

  void zero() {
    line("  \"zero_optimization\": {");
    line(cat("    \"stage\": ", sharded_parameters() ? 3 : 2, ","));
    line("    \"overlap_comm\": true,", "reduction runs behind backward", "通信与反向计算重叠");
    line(cat("    \"reduce_bucket_size\": ", bucket(preset_, machine_), ","), "elements, not bytes",
         "按元素计，不是字节");
    if (sharded_parameters()) {
      line("    \"stage3_prefetch_bucket_size\": 50000000,");
      line("    \"stage3_param_persistence_threshold\": 100000,");
      line("    \"stage3_gather_16bit_weights_on_model_save\": true,");
      line("    \"offload_optimizer\": { \"device\": \"cpu\", \"pin_memory\": true },");
      line("    \"offload_param\": { \"device\": \"cpu\", \"pin_memory\": true },");
    }
    line("    \"contiguous_gradients\": true");
    line("  },");
  }

  void optimizer() {
    line("  \"optimizer\": {");
    line("    \"type\": \"AdamW\",", "the fused kernel", "使用融合内核");
    line("    \"params\": { \"lr\": 3e-4, \"betas\": [0.9, 0.95], \"eps\": 1e-8, \"weight_decay\": 0.1 }");
    line("  },");
  }

  void activation_checkpointing() {
    line("  \"activation_checkpointing\": {", "read by models that call deepspeed.checkpointing",
         "只对自行调用 deepspeed.checkpointing 的模型生效");
    line("    \"partition_activations\": true,");
    line("    \"contiguous_memory_optimization\": true,");
    line("    \"number_checkpoints\": 24", "the model's layers", "模型的层数");
    line("  },");
  }

  void closing() {
    line("  \"weft\": { \"save_every_steps\": 500 }", "DeepSpeed ignores this section", "DeepSpeed 会忽略这一节");
    line("}");
  }

  Preset preset_;
  int64_t world_;
  const Machine& machine_;
  Language language_;
  int64_t micro_;
  std::string out_;
};

}  // namespace

Preset parse_preset(std::string_view name) {
  if (name == "standard") return Preset::kStandard;
  if (name == "high-performance") return Preset::kHighPerformance;
  throw Error(ErrorKind::kInput, {.title = cat("there is no preset '", name, "'"),
                                  .what = "",
                                  .where = "--preset",
                                  .fix = "standard or high-performance"});
}

std::string preset_text(Preset preset, int64_t world, const Machine& machine, Language language) {
  return Writer(preset, world, machine, language).text();
}

}  // namespace weft::doctor
