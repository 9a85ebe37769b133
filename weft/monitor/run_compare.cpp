#include "weft/monitor/run_compare.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/report_html_impl.h"

namespace weft {
namespace {

std::string rate_text(double rate) {
  return is_drawable(rate) && std::fabs(rate) < 1e18
             ? rate < 1000 ? significant_text(rate, 4) : format_count(std::llround(rate))
             : "";
}
std::string known_loss(double loss) { return is_drawable(loss) ? loss_text(loss) : ""; }
std::string share_text(double share) { return is_drawable(share) ? cat(fixed_text(share * 100, 1), " %") : ""; }

struct Measure {
  const char* key;
  Words name;
  BetterIs better;
  double (*value)(const RunFiles&, const RunSummary&);
  std::string (*text)(double);
};

const Measure kMeasures[] = {
    {"final_loss",
     {"final loss, mean of the last tenth", "最终损失（最后十分之一平均）"},
     BetterIs::kLower,
     [](const RunFiles&, const RunSummary& s) { return s.final_loss; },
     known_loss},
    {"held_out_loss",
     {"held-out loss", "留出集损失"},
     BetterIs::kLower,
     [](const RunFiles& r, const RunSummary&) { return r.result ? r.result->held_out_loss : kUnknown; },
     known_loss},
    {"step_ms",
     {"time of a step, median", "每步时间（中位数）"},
     BetterIs::kLower,
     [](const RunFiles&, const RunSummary& s) { return s.step_ms; },
     detail::ms_text},
    {"tokens_per_s",
     {"tokens per second, median", "词元/秒（中位数）"},
     BetterIs::kHigher,
     [](const RunFiles&, const RunSummary& s) { return s.tokens_per_s; },
     rate_text},
    {"samples_per_s",
     {"samples per second, median", "样本/秒（中位数）"},
     BetterIs::kHigher,
     [](const RunFiles&, const RunSummary& s) { return s.samples_per_s; },
     rate_text},
    {"mfu",
     {"model FLOPs utilisation", "模型算力利用率"},
     BetterIs::kHigher,
     [](const RunFiles&, const RunSummary& s) { return s.mfu; },
     share_text},
    {"peak_bytes",
     {"peak memory", "内存峰值"},
     BetterIs::kLower,
     [](const RunFiles&, const RunSummary& s) { return s.peak_bytes; },
     detail::bytes_text},
    {"steps",
     {"steps", "步数"},
     BetterIs::kNeither,
     [](const RunFiles& r, const RunSummary&) { return static_cast<double>(r.rows.size()); },
     [](double v) { return grouped_text(static_cast<int64_t>(v)); }},
};

std::vector<ComparedNumber> numbers_of(const RunComparison& it) {
  std::vector<ComparedNumber> out;
  for (const Measure& measure : kMeasures) {
    ComparedNumber number{.key = measure.key, .name = measure.name, .better = measure.better};
    number.a = measure.value(it.a, it.a_summary);
    number.b = measure.value(it.b, it.b_summary);
    number.a_text = measure.text(number.a);
    number.b_text = measure.text(number.b);
    if (is_drawable(number.a) || is_drawable(number.b)) out.push_back(std::move(number));
  }
  return out;
}

std::vector<ComparedNumber> parts_compared(const RunComparison& it) {
  std::vector<ComparedNumber> out;
  if (!it.a_summary.parts_ms && !it.b_summary.parts_ms) return out;
  for (size_t p = 0; p < kNumStepParts; ++p) {
    const Words& words = words_of(static_cast<StepPart>(p));
    ComparedNumber number{.key = words.en, .name = words, .better = BetterIs::kLower};
    if (it.a_summary.parts_ms) number.a = (*it.a_summary.parts_ms)[p];
    if (it.b_summary.parts_ms) number.b = (*it.b_summary.parts_ms)[p];
    number.a_text = detail::ms_text(number.a);
    number.b_text = detail::ms_text(number.b);
    out.push_back(std::move(number));
  }
  return out;
}

// What stands in result.json about how the run was started, as settings are written.
std::map<std::string, std::string> settings_by_path(const RunFiles& run) {
  std::map<std::string, std::string> out;
  if (run.result) {
    const RunResult& it = *run.result;
    out = {{"(run) data", it.data},
           {"(run) device", it.device},
           {"(run) parameters", cat(it.params)},
           {"(run) ranks", cat(it.world)},
           {"(run) seed", cat(it.seed)},
           {"(run) stage", cat(it.stage)},
           {"(run) threads", cat(it.threads)},
           {"(run) tokens a step", cat(it.tokens_per_step)}};
  }
  if (!run.settings) return out;
  for (const SettingRow& setting : run.settings->settings) out[setting.path] = setting.value;
  return out;
}

std::vector<ComparedSetting> settings_compared(const RunFiles& a, const RunFiles& b) {
  const auto of_a = settings_by_path(a), of_b = settings_by_path(b);
  auto all = of_a;
  all.insert(of_b.begin(), of_b.end());
  std::vector<ComparedSetting> out;
  for (const auto& [path, value] : all) {
    const auto in_a = of_a.find(path), in_b = of_b.find(path);
    ComparedSetting row{path, in_a == of_a.end() ? "" : in_a->second, in_b == of_b.end() ? "" : in_b->second};
    if (row.a != row.b) out.push_back(std::move(row));
  }
  return out;
}

}  // namespace

double ComparedNumber::percent() const {
  return is_drawable(a) && is_drawable(b) && a != 0 ? (b - a) / std::fabs(a) * 100 : kUnknown;
}

RunComparison compare_runs(RunFiles a, RunFiles b, const ReportOptions& options) {
  RunComparison out{.a = std::move(a), .b = std::move(b)};
  out.a_summary = summarize(out.a, options.now_unix_s);
  out.b_summary = summarize(out.b, options.now_unix_s);
  out.numbers = numbers_of(out);
  out.parts = parts_compared(out);
  out.settings = settings_compared(out.a, out.b);
  return out;
}

}  // namespace weft
