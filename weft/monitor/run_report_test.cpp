#include "weft/monitor/run_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/support/text.h"
#include "weft/base/text.h"
#include "weft/base/utf8.h"

namespace weft {
namespace {

using test::has;

RunFiles sample_run(int num_steps) {
  RunFiles run{.folder = "runs/gpt-nano"};
  for (int i = 0; i < num_steps; ++i) {
    RunRow row{.step = i, .has_loss = true};
    row.loss = 2 + 9 * std::exp(-i / 100.0) + 0.05 * std::sin(i * 7.0);
    row.tokens_per_s = 48'000.0 + i % 100;
    row.step_ms = 100, row.forward_ms = 30, row.backward_ms = 50, row.optimizer_ms = 15, row.exposed_comm_ms = 4;
    run.rows.push_back(row);
  }
  run.result = RunResult{
      .name = "gpt-nano", .status = "finished", .device = "cpu", .data = "train.bin", .params = 384, .world = 2};
  run.result->held_out_loss = 2.2;
  run.result->unigram_entropy = 7.3;
  run.result->ledger = {{"parameters", 1024}, {"gradients", 1024}};
  run.result->state_bytes = {{"params", 1024}, {"grads", 2048}};
  return run;
}

void add_the_rest(RunFiles& run) {
  run.ranks = RunRanks{.step = 40, .world = 2, .ranks = {{.rank = 0, .host = "a"}, {.rank = 1, .host = "b"}}};
  for (auto& rank : run.ranks->ranks) rank.step_ms = 100, rank.busy_ms = 90;
  run.ranks->slow = {{.rank = 1, .phase = "backward", .where = "blocks.3", .ms = 14, .percent = 12.5, .since_step = 8}};
  run.settings =
      RunSettings{.settings = {{"zero_optimization.stage", "2", "ds_config.json:5:14"}, {"seed", "1", "default"}},
                  .advice = {{"warning", "overlap_comm", "turn it on", "打开它", "set true", "设为 true"}}};
  run.timeline = RunTimeline{.steps = {{40, 0, 100}},
                             .rows = {{0, "compute"}, {0, "reduce"}},
                             .spans = {{0, 0, 80, "backward", "backward"}, {1, 20, 90, "reduce", "reduce", 3, 4096}}};
  run.flops = RunFlops{.step = 3, .total = 8e9};
  run.flops->modules = {{.name = "", .type = "Gpt", .forward = 2e9, .backward = 4e9},
                        {.name = "block0.qkv", .type = "Linear", .depth = 2, .forward = 1e9, .backward = 1e9}};
  run.flops->elsewhere.forward = 2e9;
}

// "" when every element is closed in order, else what is wrong. Knows just enough HTML for our own pages.
std::string markup_fault(std::string_view html) {
  const std::set<std::string, std::less<>> empty_elements = {"meta", "input"};
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string_view::npos; at = html.find('<', at)) {
    const size_t end = html.find('>', at);
    if (end == std::string_view::npos) return "a tag does not end";
    const std::string_view tag = html.substr(at + 1, end - at - 1);
    at = end;
    if (tag.starts_with('!') || tag.ends_with('/')) continue;
    const bool closing = tag.starts_with('/');
    const std::string name(tag.substr(closing ? 1 : 0, tag.find_first_of(" \n") - (closing ? 1 : 0)));
    if (closing && (open.empty() || open.back() != name)) return cat("unexpected </", name, ">");
    if (closing)
      open.pop_back();
    else if (!empty_elements.contains(name))
      open.push_back(name);
    if (name == "script" && !closing) at = html.find("</script>", at);
    if (name == "style" && !closing) at = html.find("</style>", at);
  }
  return open.empty() ? "" : cat("never closed: ", open.back());
}

// Everything that must hold for any page.
void expect_sound(const std::string& html) {
  EXPECT_EQ(markup_fault(html), "");
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>"));
  EXPECT_FALSE(has(html, "https://"));
  EXPECT_FALSE(has(html, "src=\""));
  EXPECT_FALSE(has(html, "@import"));
  EXPECT_FALSE(has(html, "url("));
  constexpr std::string_view kNamespace = "http://www.w3.org/2000/svg";
  for (size_t at = html.find("http://"); at != std::string::npos; at = html.find("http://", at + 1)) {
    EXPECT_EQ(html.substr(at, kNamespace.size()), kNamespace);
  }
  for (std::string_view rest = html; !rest.empty();) {
    const CodePoint point = take_code_point(rest);
    ASSERT_TRUE(point.valid && (point.value == '\n' || !is_control(point.value)));
  }
}

TEST(RunReport, HoldsTheRunAndItsFacts) {
  RunFiles run = sample_run(1500);
  add_the_rest(run);
  const std::string html = render_report_html(run);
  expect_sound(html);
  for (const char* piece : {"<title>gpt-nano</title>",
                            "train.bin",
                            "unigram entropy",
                            "Held-out loss",
                            ">2.200<",
                            "Throughput",
                            "prefers-color-scheme: dark",
                            "@media print",
                            "name=\"viewport\"",
                            "rank 1 is slow: backward takes 14.0 ms",
                            "blocks.3",
                            "12.5 %",
                            "zero_optimization.stage",
                            "ds_config.json:5:14",
                            "turn it on",
                            "打开它",
                            "Timeline of a step",
                            "+100.0 %",
                            "FLOPs by module",
                            "<code>qkv</code>",
                            ">75.0 %<",
                            "(elsewhere)",
                            "8 GFLOP in all"}) {
    EXPECT_TRUE(has(html, piece)) << piece;
  }
}

TEST(RunReport, WaitsForRanksAreNoCommunication) {
  RunFiles run = sample_run(30);
  run.timeline = RunTimeline{.steps = {{40, 0, 10e6}},
                             .rows = {{0, "compute"}, {0, "reduce"}, {0, "exposed wait"}},
                             .spans = {{0, 0, 5e6, "backward", "backward"}, {1, 3e6, 4e6, "reduce", "reduce"}}};
  const char* const words[] = {"waiting for other ranks", "Ranks also waited 2.75 ms for each other",
                               "等待其他进程 2.75 ms"};
  for (const char* piece : words) EXPECT_FALSE(has(render_report_html(run), piece)) << piece;
  run.timeline->spans.push_back({2, 6e6, 8.75e6, "wait for ranks", "exposed_wait"});
  const std::string html = render_report_html(run);
  expect_sound(html);
  for (const char* piece : words) EXPECT_TRUE(has(html, piece)) << piece;
  EXPECT_TRUE(has(html, "communication 1.00 ms, of which 0.00 ms was waited for: 100 % of what could be hidden was"));
}

TEST(RunReport, HostileTextStaysText) {
  RunFiles run = sample_run(30);
  add_the_rest(run);
  const std::string evil = "</title></style></script><script>alert(\"1\")</script>' onload='x\xFF\xC0\xBC\x01";
  run.result->name = run.result->data = run.result->device = run.folder = evil;
  run.result->status = "failed";
  run.result->ledger[evil] = 5;
  run.last_lines = run.notes = {evil};
  run.ranks->ranks[0].host = run.ranks->slow[0].phase = run.ranks->slow[0].where = evil;
  run.settings->settings[0] = {evil, evil, evil};
  run.settings->advice[0] = {evil, evil, evil, evil, evil, evil};
  run.flops->modules[1].name = run.flops->modules[1].type = evil;
  run.timeline->rows[0].track = run.timeline->spans[0].name = run.timeline->spans[0].category = evil;
  const std::string html = render_report_html(run);
  expect_sound(html);
  EXPECT_FALSE(has(html, "<script>alert"));
  EXPECT_FALSE(has(html, "' onload='x\""));
}

TEST(RunReport, EmptyAndSinglePointRunsAreFine) {
  expect_sound(render_report_html({}));
  EXPECT_TRUE(has(render_report_html({}), "no finite value was recorded"));
  EXPECT_TRUE(has(render_report_html({}), "no target could be judged"));
  RunFiles run;
  run.rows = {{.step = 7, .has_loss = true, .loss = 3.5}};
  const std::string html = render_report_html(run);
  expect_sound(html);
  EXPECT_TRUE(has(html, "3.500"));
  EXPECT_FALSE(has(html, "data-kind=\"rate\""));  // no rate was measured
  expect_sound(render_report_html(sample_run(1)));
}

TEST(RunReport, LossesThatAreNoNumbersAreCountedNotDrawn) {
  RunFiles run = sample_run(500);
  run.rows[100].loss = std::nan("");
  run.rows[101].loss = std::numeric_limits<double>::infinity();
  run.result->held_out_loss = std::nan("");
  run.result->unigram_entropy = -std::numeric_limits<double>::infinity();
  const std::string html = render_report_html(run);
  expect_sound(html);
  EXPECT_TRUE(has(html, "not a finite number: 2 of 500"));
  EXPECT_TRUE(has(html, "null"));
  EXPECT_FALSE(has(html, "[nan") || has(html, ",nan") || has(html, ",inf"));
  for (auto& row : run.rows) row.loss = std::nan("");
  expect_sound(render_report_html(run));
}

TEST(RunReport, ARunWithoutALossIsNoRunOfBadLosses) {
  RunFiles run = sample_run(50);
  for (auto& row : run.rows) row.loss = kUnknown, row.has_loss = false;
  EXPECT_FALSE(has(render_report_html(run), "not a finite number"));
}

TEST(RunReport, ASpikeDoesNotFlattenTheCurveAndIsNamed) {
  RunFiles run = sample_run(1000);
  run.rows[333].loss = 1e6;
  const std::string html = render_report_html(run);
  EXPECT_TRUE(has(html, "above the picture: 1, the highest 1e+06 at step 333."));
  EXPECT_FALSE(has(html, "data-y=\"2 1e+06"));
  EXPECT_FALSE(has(render_report_html(sample_run(1000)), "above the picture"));
}

TEST(RunReport, ACrashedRunSaysWhereItStopped) {
  RunFiles run = sample_run(120);
  run.result->status = "running";
  run.written_unix_s = 1000 + 119;
  run.last_lines = {"[weft rank 3] error: out of memory"};
  const std::string html = render_report_html(run, {.now_unix_s = 1000 + 119 + 7200});
  expect_sound(html);
  EXPECT_TRUE(has(html, "The run was lost after step 119: nothing was written for 2h00m."));
  EXPECT_TRUE(has(html, "[weft rank 3] error: out of memory"));
  run.has_flight_dumps = true;
  EXPECT_TRUE(has(render_report_html(run), "weft blame runs/gpt-nano/flight"));
  run.result->status = "finished";
  EXPECT_FALSE(has(render_report_html(run), "Where it stopped"));
}

TEST(RunReport, ALongRunStaysASmallPage) {
  RunFiles run = sample_run(100'000);
  run.rows[50'000].step_ms = run.rows[50'000].forward_ms = 5000;
  const std::string html = render_report_html(run);
  expect_sound(html);
  EXPECT_LT(html.size(), 800'000U);
  EXPECT_TRUE(has(html, "5065"));  // the slowest step of a column stays
}

TEST(RunReport, AHugeModelHasATableOfItsTop) {
  RunFiles run = sample_run(30);
  run.flops = RunFlops{.step = 3, .total = 8e9, .modules = {{.name = "", .type = "Gpt"}}};
  for (int i = 0; i < 3000; ++i) {
    run.flops->modules.push_back({.name = cat("b", i), .depth = 1});
    run.flops->modules.push_back({.name = cat("b", i, ".deep"), .depth = 2});
  }
  const std::string html = render_report_html(run);
  expect_sound(html);
  EXPECT_TRUE(has(html, "<code>b78</code>") && !has(html, "<code>b79</code>") && !has(html, "<code>deep</code>"));
  EXPECT_TRUE(has(html, "5,921 deeper modules are in flops.json"));
}

TEST(RunReport, AsJsonItHoldsTheTargets) {
  const std::string json = report_json(sample_run(60));
  for (const char* piece :
       {"\"schema\": 1", "\"state\": \"finished\"", "\"communication\"", "\"mark\": \"met\"", "\"exposed_comm\": 4"})
    EXPECT_TRUE(has(json, piece)) << piece << "\n" << json;
}

}  // namespace
}  // namespace weft
