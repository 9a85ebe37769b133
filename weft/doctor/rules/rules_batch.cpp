// The batch triangle, beyond what makes it wrong: where the world size came from, and what the numbers mean for a step.
#include "weft/base/text.h"
#include "weft/doctor/rules/rule.h"

namespace weft::doctor {
namespace {

using config::Origin;
using config::Severity;

bool triangle_holds(const config::Resolved& r, int64_t world) {
  return r.train_batch_size == r.train_micro_batch_size_per_gpu * r.gradient_accumulation_steps * world;
}

void arithmetic(const Subject& subject, Reporter& reporter) {
  const auto& r = subject.resolved();
  const int64_t world = subject.reading.world;
  if (!triangle_holds(r, world)) return;
  const std::string sum = cat(r.train_batch_size, " = ", r.train_micro_batch_size_per_gpu, " x ",
                              r.gradient_accumulation_steps, " x ", world);
  reporter.good("train_batch_size", {cat(sum, world == 1 ? " rank" : " ranks"), cat(sum, " 卡，计算正确")});
  reporter.good("train_micro_batch_size_per_gpu", {"per rank and forward", "每卡每次前向的样本数"});
  reporter.good("gradient_accumulation_steps", {"micro-steps per update", "每次更新累积的微步数"});
}

void assumed_world(const Subject& subject, Reporter& reporter) {
  const bool assumed = subject.reading.world_origin.kind == Origin::Kind::kDefault;
  if (!assumed || !subject.reading.given("train_batch_size") || subject.reading.has_errors()) return;
  reporter.problem("train_batch_size",
                   {"the world size is not known, so the batch was worked out for 1 rank; DeepSpeed does the same when "
                    "a launcher is missing",
                    "不知道卡数，按 1 卡计算；没有启动器时 DeepSpeed 也是这样"},
                   {"say --world N", "用 --world N 说明"});
}

void long_accumulation(const Subject& subject, Reporter& reporter) {
  const auto& r = subject.resolved();
  const auto steps = r.gradient_accumulation_steps;
  if (subject.zero().stage < 2 || steps < 8) return;
  reporter.problem(
      "gradient_accumulation_steps",
      {cat("stage ", subject.zero().stage, " reduces gradients at every micro-step: ", steps,
           " reductions per update, where stage 1 needs one"),
       cat("stage ", subject.zero().stage, " 每个微步都要归约梯度：每次更新 ", steps, " 次，而 stage 1 只需一次")},
      {"where memory allows: stage 1, or a larger micro batch and fewer steps",
       "显存允许时：改用 stage 1，或增大微批次、减少累积"});
}

constexpr Rule kBatchRules[] = {
    {{"batch/arithmetic", Severity::kAdvice, "the batch sizes agree with the world size", "批次大小与卡数一致",
      "train_batch_size = micro batch x accumulation x world.", "train_batch_size = 微批次 × 累积 × 卡数。"},
     arithmetic},
    {{"batch/world-assumed", Severity::kAdvice, "the world size is a guess", "卡数未知",
      "The same file can be right for 8 ranks and wrong for 6.", "同一个文件可能适合 8 卡而不适合 6 卡。"},
     assumed_world},
    {{"batch/accumulation-traffic", Severity::kAdvice, "many micro-steps in a stage that reduces at each",
      "每个微步都归约且累积很多",
      "Stages 2 and 3 keep only a slice of the gradient, so every micro-step must be reduced.",
      "stage 2、3 只保留梯度的一片，因此每个微步都必须归约。"},
     long_accumulation},
};

}  // namespace

std::span<const Rule> batch_rules() { return kBatchRules; }

}  // namespace weft::doctor
