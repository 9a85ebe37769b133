// Settings that DeepSpeed takes together and weft's engine refuses, each when a run starts. The reader's own conflicts are those that
// DeepSpeed refuses too.
#include "weft/base/text.h"
#include "weft/config/optimizer_names.h"
#include "weft/doctor/rules/rule.h"

namespace weft::doctor {
namespace {

using config::Compress;
using config::Dtype;
using config::Severity;

constexpr std::string_view kCompress = "weft.compress";

bool compresses(const Subject& subject) { return subject.resolved().weft.compress != Compress::kNone; }

void compressed_type(const Subject& subject, Reporter& reporter) {
  if (!compresses(subject) || !subject.resolved().communication_data_type) return;
  reporter
      .problem(
          "communication_data_type",
          {"\"compress\": \"int8\" already says what travels; communication_data_type cannot say something else",
           "\"compress\": \"int8\" 已决定传输类型，不能再设 communication_data_type"},
          {"leave communication_data_type out: int8 is what travels", "去掉 communication_data_type：传输的就是 int8"})
      .edits = {{config::Edit::Kind::kRemove, "communication_data_type"}};
}

void compressed_copies(const Subject& subject, Reporter& reporter) {
  if (!compresses(subject) || subject.zero().stage != 0 || subject.resolved().weft.shard_update) return;
  reporter.problem(kCompress,
                   {"\"compress\": \"int8\" needs updates that are shared out; stage is 0 and shard_update false",
                    "\"compress\": \"int8\" 需要分摊更新，而 stage 为 0 且 shard_update 为 false"},
                   {"leave shard_update out, or use stage 1", "去掉 shard_update，或改用 stage 1"});
}

void compressed_stage3(const Subject& subject, Reporter& reporter) {
  if (!compresses(subject) || subject.zero().stage != 3) return;
  reporter.problem(kCompress,
                   {"\"compress\": \"int8\" goes with stages 0 to 2, not with stage 3",
                    "\"compress\": \"int8\" 只用于 stage 0 到 2，不能用于 stage 3"},
                   {"use stage 2, or leave compress out", "改用 stage 2，或去掉 compress"}, "\"none\"");
}

bool scales_losses(const config::Resolved& r) {
  return r.fp16.enabled || (r.torch_autocast.enabled && r.torch_autocast.dtype == Dtype::kFp16);
}

void compressed_scale(const Subject& subject, Reporter& reporter) {
  if (!compresses(subject) || !scales_losses(subject.resolved())) return;
  reporter.problem(kCompress,
                   {"\"compress\": \"int8\" with fp16: what rounding leaves over is in units of a loss scale that "
                    "changes between steps",
                    "\"compress\": \"int8\" 与 fp16：舍入的余量以 loss scale 为单位，而它每步都可能变化"},
                   {"use bf16 instead of fp16, or leave compress out", "用 bf16 代替 fp16，或去掉 compress"});
}

void lamb_masters(const Subject& subject, Reporter& reporter) {
  const config::Resolved& r = subject.resolved();
  const bool lamb = config::optimizer_kind(r.optimizer.type.value_or("")) == "lamb";
  if (!lamb || !r.bf16.enabled || !r.bf16.bf16_master_weights_and_grads) return;
  reporter.problem("bf16.bf16_master_weights_and_grads",
                   {"weft's Lamb keeps master weights in fp32", "weft 的 Lamb 用 fp32 保存主权重"},
                   {"leave it out, or use AdamW", "去掉它，或改用 AdamW"}, "false");
}

void idle_states(const Subject& subject, Reporter& reporter) {
  const config::Bf16& bf16 = subject.resolved().bf16;
  if (bf16.enabled || !bf16.bf16_optimizer_states || !bf16.bf16_master_weights_and_grads) return;
  reporter.problem("bf16.bf16_optimizer_states",
                   {"moments are kept in bf16 only where master weights are, and bf16 is off",
                    "只有主权重也用 bf16 时动量才用 bf16，而 bf16 没有启用"},
                   {"set bf16.enabled, or leave it out", "启用 bf16，或去掉它"}, "false");
}

void scale_power(const Subject& subject, Reporter& reporter) {
  const config::Fp16& fp16 = subject.resolved().fp16;
  const bool fits = fp16.initial_scale_power >= -126 && fp16.initial_scale_power <= 127;
  if (!fp16.enabled || fp16.loss_scale > 0 || fits) return;
  reporter.problem(
      "fp16.initial_scale_power",
      {cat("the loss scale would start at 2 to the power ", fp16.initial_scale_power, ", and fp32 has -126 to 127"),
       cat("loss scale 的初值为 2 的 ", fp16.initial_scale_power, " 次方，而 fp32 只有 -126 到 127")},
      {"write 16", "写 16"}, "16");
}

void hysteresis(const Subject& subject, Reporter& reporter) {
  const config::Fp16& fp16 = subject.resolved().fp16;
  if (!fp16.enabled || fp16.loss_scale > 0 || fp16.hysteresis >= 1) return;
  reporter.problem("fp16.hysteresis",
                   {cat("hysteresis is ", fp16.hysteresis,
                        ": DeepSpeed would never lower the scale and leave out every update after an overflow"),
                    cat("hysteresis 是 ", fp16.hysteresis, "：DeepSpeed 不会再降低 scale，一次溢出后所有更新都会跳过")},
                   {"write 2", "写 2"}, "2");
}

constexpr std::string_view kAtStart = "A run would be refused when it starts.";
constexpr std::string_view kAtStartZh = "训练启动时会被拒绝。";

constexpr Rule kConflictRules[] = {
    {{"conflicts/compress-type", Severity::kError, "compressed gradients with a type for the wire",
      "压缩梯度又指定传输类型", kAtStart, kAtStartZh},
     compressed_type},
    {{"conflicts/compress-copies", Severity::kError, "compressed gradients where every rank updates everything",
      "每个进程都更新全部参数却压缩梯度", kAtStart, kAtStartZh},
     compressed_copies},
    {{"conflicts/compress-stage3", Severity::kError, "compressed gradients in stage 3", "stage 3 压缩梯度", kAtStart,
      kAtStartZh},
     compressed_stage3},
    {{"conflicts/compress-scale", Severity::kError, "compressed gradients with a loss scale", "压缩梯度与 loss scale",
      kAtStart, kAtStartZh},
     compressed_scale},
    {{"conflicts/lamb-masters", Severity::kError, "Lamb with bf16 master weights", "Lamb 使用 bf16 主权重", kAtStart,
      kAtStartZh},
     lamb_masters},
    {{"conflicts/states-need-bf16", Severity::kError, "bf16 optimizer states with bf16 off",
      "bf16 没有启用却用 bf16 优化器状态", kAtStart, kAtStartZh},
     idle_states},
    {{"conflicts/scale-power", Severity::kError, "a loss scale that fp32 does not have", "fp32 表示不了的 loss scale",
      kAtStart, kAtStartZh},
     scale_power},
    {{"conflicts/hysteresis", Severity::kError, "a hysteresis below 1", "hysteresis 小于 1", kAtStart, kAtStartZh},
     hysteresis},
};

}  // namespace

std::span<const Rule> conflict_rules() { return kConflictRules; }

}  // namespace weft::doctor
