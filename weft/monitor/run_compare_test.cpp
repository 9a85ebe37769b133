#include "weft/monitor/run_compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

RunFiles run_of(const std::string& name, double step_ms, const std::string& stage) {
  RunFiles run{.folder = name};
  for (int i = 1; i <= 40; ++i) {
    RunRow row{.step = i, .has_loss = true};
    row.loss = 10.0 / i, row.tokens_per_s = 1e6 / step_ms, row.step_ms = step_ms;
    row.forward_ms = step_ms * 0.3, row.backward_ms = step_ms * 0.6, row.optimizer_ms = step_ms * 0.1;
    run.rows.push_back(row);
  }
  run.result = RunResult{.name = name, .status = "finished", .device = "cpu", .world = 2};
  run.settings = RunSettings{.settings = {{"zero_optimization.stage", stage, "flag"}, {"seed", "1", "default"}}};
  return run;
}

double percent_of(const nlohmann::json& comparison, const std::string& name) {
  for (const auto& number : comparison["numbers"]) {
    if (number["name"] == name) return number["percent"];
  }
  return kUnknown;
}

TEST(RunCompare, DifferencesAreInPercentOfTheFirst) {
  const RunComparison it = compare_runs(run_of("a", 100, "1"), run_of("b", 80, "2"));
  const auto json = nlohmann::json::parse(comparison_json(it));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["a"]["name"], "a");
  EXPECT_NEAR(percent_of(json, "step_ms"), -20, 1e-9);
  EXPECT_NEAR(percent_of(json, "tokens_per_s"), 25, 1e-9);
  ASSERT_EQ(json["settings"].size(), 1U);
  EXPECT_EQ(json["settings"][0]["path"], "zero_optimization.stage");
  EXPECT_EQ(json["settings"][0]["b"], "2");
  EXPECT_NEAR(json["parts_ms"][1]["b"], 24, 1e-9);
}

TEST(RunCompare, ThePageShowsBothAndEscapesThem) {
  const RunComparison it = compare_runs(run_of("<b>one", 100, "1"), run_of("two", 80, "2"));
  const std::string html = render_comparison_html(it);
  EXPECT_EQ(html.find("<b>one"), std::string::npos);
  for (const char* piece :
       {"A &lt;b&gt;one", "B two", "-20.0 %", "+25.0 %", "class=\"better\"", "zero_optimization.stage"})
    EXPECT_NE(html.find(piece), std::string::npos) << piece;
}

TEST(RunCompare, EmptyRunsAndMissingNumbersAreFine) {
  const RunComparison none = compare_runs({}, {});
  EXPECT_NE(render_comparison_html(none).find("No setting that was recorded differs"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::accept(comparison_json(none)));
  const RunComparison half = compare_runs(run_of("a", 100, "1"), {});
  EXPECT_TRUE(nlohmann::json::accept(comparison_json(half)));
  EXPECT_TRUE(std::isnan(half.numbers.front().percent()));
  EXPECT_FALSE(render_comparison_html(half).empty());
}

}  // namespace
}  // namespace weft
