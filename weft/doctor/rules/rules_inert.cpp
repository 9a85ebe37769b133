// Settings that the file gives and nothing reads: wrong stage, a condition that does not hold, or dead for years. The table
// (settings.toml: stages, needs, dead) knows most of them; only values that differ from the default are worth a word.
#include <algorithm>

#include "weft/base/text.h"
#include "weft/doctor/rules/rule.h"

namespace weft::doctor {
namespace {

using config::OffloadDevice;
using config::Setting;
using config::Severity;

std::string stages_words(unsigned stages) {
  std::vector<std::string> numbers;
  for (unsigned stage = 0; stage <= 3; ++stage) {
    if ((stages >> stage & 1U) != 0) numbers.push_back(cat(stage));
  }
  return join(numbers, ", ");
}

bool wrong_stage(const Subject& subject, const Setting& setting) {
  return setting.stages != 0 && (setting.stages >> subject.zero().stage & 1U) == 0;
}

bool unmet(const Subject& subject, const Setting& setting) {
  const size_t equals = setting.needs.find('=');
  if (equals == std::string_view::npos) return false;
  const Setting* condition = config::find_setting(setting.needs.substr(0, equals));
  if (condition == nullptr) {  // the switch zero_optimization, which is a section elsewhere
    const config::Value* section = subject.reading.document.root.find(setting.needs.substr(0, equals));
    return section == nullptr || section->kind != config::Kind::kBool || !section->boolean;
  }
  return subject.reading.value(condition->path).text != setting.needs.substr(equals + 1);
}

template <typename Report>
void each_given(const Subject& subject, const Report& report) {
  for (const Setting& setting : config::settings()) {
    if (subject.reading.given(setting.path) && !subject.reading.is_default(setting.path)) report(setting);
  }
}

void by_stage(const Subject& subject, Reporter& reporter) {
  each_given(subject, [&](const Setting& setting) {
    if (!wrong_stage(subject, setting) || !setting.deprecated.empty()) return;
    reporter.problem(
        setting.path,
        {cat("stage ", subject.zero().stage, " does not read it; it is for stage ", stages_words(setting.stages)),
         cat("stage ", subject.zero().stage, " 不会读取它；它只用于 stage ", stages_words(setting.stages))},
        {"remove it, or change the stage", "删除它，或更改 stage"});
  });
}

void by_condition(const Subject& subject, Reporter& reporter) {
  each_given(subject, [&](const Setting& setting) {
    if (wrong_stage(subject, setting) || !unmet(subject, setting)) return;
    reporter.problem(setting.path,
                     {cat("read only with ", setting.needs), cat("只有在 ", setting.needs, " 时才会读取")},
                     {"remove it", "删除它"});
  });
}

void dead(const Subject& subject, Reporter& reporter) {
  for (const Setting& setting : config::settings()) {
    if (!setting.dead || !setting.deprecated.empty() || !subject.reading.given(setting.path)) continue;
    if (subject.reading.is_default(setting.path)) {
      if (setting.path.starts_with("zero_optimization.") && subject.zero().stage == 0) continue;
      reporter.good(setting.path, {"as it should be; DeepSpeed parses it and never uses it, so it may go",
                                   "取值正确；DeepSpeed 只解析不使用，可以删除"});
      continue;
    }
    config::Problem& problem = reporter.problem(setting.path,
                                                {"DeepSpeed parses it and never uses it: the value changes nothing",
                                                 "DeepSpeed 只解析不使用：这个值没有任何作用"},
                                                {"remove it", "删除它"});
    problem.edits = {{config::Edit::Kind::kRemove, std::string(setting.path)}};
  }
}

void activation_checkpointing(const Subject& subject, Reporter& reporter) {
  bool any = false;
  each_given(subject,
             [&](const Setting& setting) { any = any || setting.path.starts_with("activation_checkpointing."); });
  if (!any) return;
  reporter.problem(
      "activation_checkpointing",
      {"DeepSpeed does not recompute anything because of this section: only a model that calls "
       "deepspeed.checkpointing itself reads it; HF models use gradient_checkpointing instead; weft recomputes "
       "nothing by itself yet",
       "DeepSpeed 不会因为这一节就重算激活：只有自己调用 deepspeed.checkpointing 的模型才会读取；HF "
       "模型用的是 gradient_checkpointing；weft 目前也不会自行重算"},
      {"switch checkpointing on in the model; then this section has a reader",
       "在模型里开启激活检查点，这一节才有读者"});
}

void fp16_off(const Subject& subject, Reporter& reporter) {
  if (subject.resolved().fp16.enabled) return;
  each_given(subject, [&](const Setting& setting) {
    if (!setting.path.starts_with("fp16.") || setting.key == "enabled") return;
    reporter.problem(setting.path, {"fp16 is not enabled: no loss scale is used", "fp16 没有开启：不会使用 loss scale"},
                     {"remove it", "删除它"});
  });
}

void aio(const Subject& subject, Reporter& reporter) {
  const auto& zero = subject.zero();
  const bool nvme =
      zero.offload_optimizer.device == OffloadDevice::kNvme || zero.offload_param.device == OffloadDevice::kNvme;
  const bool writer = subject.reading.document.root.find("checkpoint") != nullptr &&
                      config::find_path(subject.reading.document.root, "checkpoint.writer") != nullptr;
  if (nvme || writer) return;
  each_given(subject, [&](const Setting& setting) {
    if (!setting.path.starts_with("aio.")) return;
    reporter.problem(setting.path,
                     {"nothing here does asynchronous file I/O: no NVMe offload, no fast checkpoint writer",
                      "这里没有异步文件读写：既没有 NVMe 卸载，也没有快速检查点写入"},
                     {"remove it", "删除它"});
  });
}

constexpr Rule kInertRules[] = {
    {{"inert/stage", Severity::kAdvice, "a setting that this ZeRO stage does not read", "当前 stage 不读取的设置",
      "It changes nothing, and says to the next reader that it does.", "它没有任何作用，却会误导下一个读者。"},
     by_stage},
    {{"inert/condition", Severity::kAdvice, "a setting whose condition does not hold", "前提不成立的设置",
      "It changes nothing.", "它没有任何作用。"},
     by_condition},
    {{"inert/dead", Severity::kAdvice, "a setting that DeepSpeed parses and never uses", "DeepSpeed 只解析不使用的设置",
      "It changes nothing.", "它没有任何作用。"},
     dead},
    {{"inert/activation-checkpointing", Severity::kAdvice, "activation_checkpointing that nothing reads",
      "没有代码读取的 activation_checkpointing", "The section configures calls that the model must make itself.",
      "这一节只配置模型自己发起的调用。"},
     activation_checkpointing},
    {{"inert/fp16-off", Severity::kAdvice, "loss-scale settings without fp16", "没有 fp16 却设置 loss scale",
      "It changes nothing.", "它没有任何作用。"},
     fp16_off},
    {{"inert/aio", Severity::kAdvice, "aio settings without NVMe", "没有 NVMe 却设置 aio", "It changes nothing.",
      "它没有任何作用。"},
     aio},
};

}  // namespace

std::span<const Rule> inert_rules() { return kInertRules; }

}  // namespace weft::doctor
