// Number formats: what trains stably, and what is added up in what.
#include "weft/base/text.h"
#include "weft/doctor/rules/rule.h"

namespace weft::doctor {
namespace {

using config::Severity;

void bf16_over_fp16(const Subject& subject, Reporter& reporter) {
  const auto& r = subject.resolved();
  if (r.bf16.enabled)
    return reporter.good("bf16.enabled", {"bf16 has fp32's range: more stable than fp16, no loss scale",
                                          "bf16 的数值范围与 fp32 相同，比 fp16 稳定"});
  if (!r.fp16.enabled) return;
  reporter.problem("fp16.enabled",
                   {"fp16 needs a loss scale and skips steps that overflow; bf16 has fp32's range and needs neither",
                    "fp16 需要 loss scale，溢出的步会被跳过；bf16 的数值范围与 fp32 相同，两者都不需要"},
                   {"on GPUs that have bf16 (A100, 30xx and newer): bf16.enabled true instead",
                    "支持 bf16 的 GPU（A100、30 系及更新）请改用 bf16.enabled"});
}

void full_precision(const Subject& subject, Reporter& reporter) {
  const auto& r = subject.resolved();
  if (r.fp16.enabled || r.bf16.enabled || r.torch_autocast.enabled || subject.zero().stage == 0) return;
  const auto trainers = [&](std::string_view path) {
    return subject.reading.origin(path).kind == config::Origin::Kind::kAuto;
  };
  if (trainers("bf16.enabled") || trainers("fp16.enabled")) return;
  reporter.problem(
      "bf16.enabled",
      {"neither bf16 nor fp16 is enabled: training runs in fp32, with twice the memory and traffic for parameters and "
       "gradients",
       "bf16 和 fp16 都没有开启：以 fp32 训练，参数和梯度的显存与通信量都翻倍"},
      {"if that is not meant: \"bf16\": {\"enabled\": true}", "若非本意：加上 \"bf16\": {\"enabled\": true}"});
}

void low_precision_accumulation(const Subject& subject, Reporter& reporter) {
  const auto& r = subject.resolved();
  if (!r.bf16.enabled || r.gradient_accumulation_steps < 4 || r.data_types.grad_accum_dtype) return;
  reporter.problem(
      "data_types.grad_accum_dtype",
      {cat("gradients of ", r.gradient_accumulation_steps,
           " micro-steps are added up in bf16, which keeps 8 bits: small ones are lost"),
       cat(r.gradient_accumulation_steps, " 个微步的梯度以 bf16 累加，只有 8 位有效数字，小的贡献会丢失")},
      {"\"data_types\": {\"grad_accum_dtype\": \"fp32\"}; it costs 2 more bytes per parameter of the shard",
       "\"data_types\": {\"grad_accum_dtype\": \"fp32\"}；每个分片参数多占 2 字节"});
}

void wire_type(const Subject& subject, Reporter& reporter) {
  const auto& r = subject.resolved();
  const bool half = r.fp16.enabled || r.bf16.enabled;
  if (!half || r.communication_data_type != config::Dtype::kFp32) return;
  reporter.problem("communication_data_type",
                   {"gradients travel as fp32: twice the bytes of the training precision",
                    "梯度以 fp32 传输：通信量是训练精度的两倍"},
                   {"remove it, unless the sums must be exact", "若不要求求和更精确，删除它"});
}

constexpr Rule kPrecisionRules[] = {
    {{"precision/bf16", Severity::kAdvice, "fp16 where bf16 would do", "可以用 bf16 却用了 fp16",
      "bf16 has the range of fp32: no loss scale, no skipped steps.",
      "bf16 的范围与 fp32 相同：不需要 loss scale，也不会跳步。"},
     bf16_over_fp16},
    {{"precision/fp32", Severity::kAdvice, "ZeRO without a 16-bit precision", "用 ZeRO 却没有开启 16 位精度",
      "Parameters, gradients and traffic are twice as large.", "参数、梯度和通信量都翻倍。"},
     full_precision},
    {{"precision/accumulation", Severity::kAdvice, "gradients accumulate in bf16", "梯度以 bf16 累加",
      "bf16 keeps 8 bits: adding a small gradient to a large sum changes nothing.",
      "bf16 只有 8 位有效数字：把小梯度加到大的和上不会有变化。"},
     low_precision_accumulation},
    {{"precision/wire", Severity::kAdvice, "fp32 on the wire in 16-bit training", "16 位训练却以 fp32 通信",
      "Communication takes twice as long.", "通信时间翻倍。"},
     wire_type},
};

}  // namespace

std::span<const Rule> precision_rules() { return kPrecisionRules; }

}  // namespace weft::doctor
