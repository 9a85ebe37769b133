// What keeps a long run alive and its result worth having.
#include "weft/base/text.h"
#include "weft/doctor/rules/rule.h"

namespace weft::doctor {
namespace {

using config::Severity;

constexpr double kLongRunParams = 1e9;  // from here on a run takes days

void clipping(const Subject& subject, Reporter& reporter) {
  const double norm = subject.resolved().gradient_clipping;
  if (norm > 0)
    return reporter.good("gradient_clipping",
                         {cat("the gradient's norm is kept at ", norm), cat("梯度范数限制在 ", norm)});
  const bool said = subject.reading.given("gradient_clipping");
  reporter.problem(
      "gradient_clipping",
      {said ? "clipping is off: one bad batch can throw the model away"
            : cat("clipping is off: DeepSpeed ", config::format_version(subject.reading.version),
                  " does not clip unless told to (since 0.19.3 it clips at 1.0)"),
       said ? "没有梯度裁剪：一个坏批次就可能毁掉模型" : "没有梯度裁剪：这个版本默认不裁剪（0.19.3 起默认 1.0）"},
      {"1.0 is usual", "常用 1.0"}, "1.0");
}

void overflow_check(const Subject& subject, Reporter& reporter) {
  const auto& bf16 = subject.resolved().bf16;
  if (!bf16.enabled || bf16.check_grad_overflow || subject.reading.version < config::Version{0, 17, 1}) return;
  reporter.problem("bf16.check_grad_overflow",
                   {"a gradient with inf or nan would be applied: the model is lost, and the loss says so only later",
                    "含 inf/nan 的梯度会被直接应用：模型报废，而 loss 之后才会显示"},
                   {"switch it on", "开启它"}, "true");
}

void static_scale(const Subject& subject, Reporter& reporter) {
  const auto& fp16 = subject.resolved().fp16;
  if (!fp16.enabled) return;
  if (fp16.loss_scale == 0) return reporter.good("fp16.loss_scale", {"dynamic: it follows the gradients", "动态调整"});
  reporter.problem("fp16.loss_scale",
                   {cat("a static scale of ", fp16.loss_scale, " overflows or underflows sooner or later"),
                    cat("固定的 loss scale ", fp16.loss_scale, " 迟早会上溢或下溢")},
                   {"0: dynamic", "写 0：动态调整"}, "0");
}

void scale_window(const Subject& subject, Reporter& reporter) {
  const auto& fp16 = subject.resolved().fp16;
  if (!fp16.enabled || fp16.loss_scale != 0 || fp16.initial_scale_power <= 24) return;
  reporter.problem(
      "fp16.initial_scale_power",
      {cat("the loss scale starts at 2^", fp16.initial_scale_power, ": many steps are skipped before it has come down"),
       cat("loss scale 从 2^", fp16.initial_scale_power, " 开始：要跳过许多步才能降下来")},
      {"16 is the default", "默认是 16"}, "16");
}

void saves(const Subject& subject, Reporter& reporter) {
  const auto& weft = subject.resolved().weft;
  if (weft.save_every_steps) {
    if (*weft.save_every_steps <= 2000)
      return reporter.good("weft.save_every_steps", {"a crash costs little", "崩溃损失很小"});
    reporter.problem("weft.save_every_steps",
                     {cat("a crash can cost ", *weft.save_every_steps, " steps"),
                      cat("一次崩溃最多损失 ", *weft.save_every_steps, " 步")},
                     {"500 is a good start", "可从 500 开始"}, "500");
    return;
  }
  if (subject.machine.params.value_or(0) < kLongRunParams) return;
  reporter.problem("weft.save_every_steps",
                   {"nothing here saves checkpoints; a run of a model this size outlives some machine",
                    "这里没有设置保存检查点；这么大的模型训练时间往往比某台机器的寿命还长"},
                   {"\"weft\": {\"save_every_steps\": 500}, or save in the program",
                    "加上 \"weft\": {\"save_every_steps\": 500}，或在程序里保存"});
}

void one_save(const Subject& subject, Reporter& reporter) {
  const auto& weft = subject.resolved().weft;
  if (weft.keep_saves.value_or(2) > 1) return;
  reporter.problem(
      "weft.keep_saves",
      {"with one checkpoint kept, a disk error in it leaves nothing", "只保留一个检查点，一旦损坏就什么都没有了"},
      {"keep 2 or more", "至少保留 2 个"}, "2");
}

void tags(const Subject& subject, Reporter& reporter) {
  if (subject.reading.value("checkpoint.tag_validation").text != "IGNORE") return;
  reporter.problem(
      "checkpoint.tag_validation",
      {"DeepSpeed's ranks that save under different tags make a checkpoint nobody can load, and nobody is "
       "told; weft's folders are named by step, and it has no effect there",
       "DeepSpeed 各卡以不同标签保存会得到无法加载的检查点，而且没有提示；weft 的目录按步命名，此项没有作用"},
      {"FAIL, or leave WARN", "设为 FAIL，或保持 WARN"}, "\"FAIL\"");
}

void lossy_load(const Subject& subject, Reporter& reporter) {
  const std::string_view path = "zero_optimization.load_from_fp32_weights";
  if (subject.reading.value(path).boolean || subject.zero().stage == 0) return;
  reporter.problem(
      path,
      {"DeepSpeed rebuilds the fp32 master weights from 16-bit ones on load: training does not go on where it stopped; "
       "weft loads fp32 in any case",
       "DeepSpeed 恢复时用 16 位权重重建 fp32 主权重：训练并不是从原处继续；weft 总是加载 fp32"},
      {"leave it true, unless the fp32 shards are lost", "保持 true，除非 fp32 分片已丢失"}, "true");
}

constexpr Rule kReliabilityRules[] = {
    {{"reliability/clipping", Severity::kWarning, "gradient clipping is off", "没有梯度裁剪",
      "One bad batch can end a run.", "一个坏批次就可能毁掉训练。"},
     clipping},
    {{"reliability/overflow-check", Severity::kWarning, "bf16 without an overflow check", "bf16 没有溢出检查",
      "inf and nan go straight into the weights.", "inf 和 nan 会直接进入权重。"},
     overflow_check},
    {{"reliability/static-scale", Severity::kAdvice, "a static loss scale", "固定的 loss scale",
      "Gradients shrink by orders of magnitude during training.", "训练中梯度会缩小几个数量级。"},
     static_scale},
    {{"reliability/initial-scale", Severity::kAdvice, "a loss scale that starts too high", "loss scale 初值过高",
      "Each halving costs a skipped step.", "每降一半都要跳过一步。"},
     scale_window},
    {{"reliability/saves", Severity::kAdvice, "no checkpoints, or rare ones", "没有检查点，或太少",
      "What was not saved is lost with the machine.", "没有保存的内容会随机器一起丢失。"},
     saves},
    {{"reliability/one-save", Severity::kWarning, "only one checkpoint is kept", "只保留一个检查点",
      "A damaged file leaves nothing to go back to.", "文件损坏后无处可退。"},
     one_save},
    {{"reliability/tags", Severity::kWarning, "checkpoint tags are not compared", "不校验检查点标签",
      "A checkpoint of DeepSpeed's in two folders cannot be loaded.", "分散在两个目录的 DeepSpeed 检查点无法加载。"},
     tags},
    {{"reliability/lossy-load", Severity::kWarning, "master weights come from 16-bit ones on load",
      "加载时主权重取自 16 位权重", "The low bits are lost at every resume with DeepSpeed.",
      "DeepSpeed 每次恢复都会丢失低位。"},
     lossy_load},
};

}  // namespace

std::span<const Rule> reliability_rules() { return kReliabilityRules; }

}  // namespace weft::doctor
