// Two runs side by side: what was set differently, what came of it, with differences in percent of the first.
//
//   const RunComparison comparison = compare_runs(load_run(env, "runs/a"), load_run(env, "runs/b"));
//   page = render_comparison_html(comparison);
//
// Values and pure functions, any thread, no failure: what one of the two did not measure is NaN or empty.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/monitor/run_files.h"
#include "weft/monitor/run_report.h"
#include "weft/monitor/run_summary.h"

namespace weft {

enum class BetterIs { kLower, kHigher, kNeither };

struct ComparedNumber {
  std::string key;  // "step_ms"
  Words name;
  double a = kUnknown, b = kUnknown;
  BetterIs better = BetterIs::kNeither;
  std::string a_text = {}, b_text = {};  // for people

  // From a to b, in percent of a; NaN where it has no meaning.
  double percent() const;
};

// A setting, or a fact of result.json ("world"), that differs. "" where a run does not have it.
struct ComparedSetting {
  std::string path, a, b;
};

struct RunComparison {
  RunFiles a, b;
  RunSummary a_summary = {}, b_summary = {};
  std::vector<ComparedNumber> numbers = {}, parts = {};  // parts are ms a step, means
  std::vector<ComparedSetting> settings = {};
};

RunComparison compare_runs(RunFiles a, RunFiles b, const ReportOptions& options = {});

// One self-contained page, as run_report.h.
std::string render_comparison_html(const RunComparison& it);
// "schema": 1.
std::string comparison_json(const RunComparison& it);

}  // namespace weft
