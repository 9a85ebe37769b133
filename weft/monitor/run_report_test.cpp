#include "weft/monitor/run_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "weft/base/text.h"
#include "weft/base/utf8.h"

namespace weft {
namespace {

bool has(const std::string& text, std::string_view piece) { return text.find(piece) != std::string::npos; }

RunReport sample_report(int num_steps) {
  RunReport report{.title = "gpt-nano", .subtitle = "four ranks"};
  for (int i = 0; i < num_steps; ++i) {
    report.steps.push_back({i, 2 + 9 * std::exp(-i / 100.0) + 0.05 * std::sin(i * 7.0), 48'000.0 + i % 100});
  }
  report.held_out = {{num_steps / 2, 3.1}, {num_steps - 1, 2.2}};
  report.references = {{"entropy of single tokens", 7.3}};
  report.facts = {{"Model", "Layers", "6"}, {"Data", "Corpus", "train.bin"}, {"Model", "Width", "384"}};
  return report;
}

// "" when every element is closed in order, else what is wrong. Knows just enough HTML for our own pages.
std::string markup_fault(std::string_view html) {
  const std::set<std::string, std::less<>> empty_elements = {"meta"};
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
  const std::string html = render_report_html(sample_report(1500));
  expect_sound(html);
  for (const char* piece :
       {"<title>gpt-nano</title>", "four ranks", "entropy of single tokens", "Held-out loss", ">2.200<", "Throughput",
        "prefers-color-scheme: dark", "@media print", "name=\"viewport\""}) {
    EXPECT_TRUE(has(html, piece)) << piece;
  }
  // The two facts of one group share a card although another group stands between them.
  EXPECT_LT(html.find("<dt>Width</dt>"), html.find("<dt>Corpus</dt>"));
}

TEST(RunReport, HostileTextStaysText) {
  RunReport report = sample_report(30);
  const std::string evil = "</title></style></script><script>alert(\"1\")</script>' onload='x\xFF\xC0\xBC\x01";
  report.title = report.subtitle = evil;
  report.references = {{evil, 3}};
  report.facts = {{evil, evil, evil}};
  const std::string html = render_report_html(report);
  expect_sound(html);
  EXPECT_FALSE(has(html, "<script>alert"));
  EXPECT_FALSE(has(html, "' onload='"));
}

TEST(RunReport, EmptyAndSinglePointRunsAreFine) {
  expect_sound(render_report_html({}));
  EXPECT_TRUE(has(render_report_html({}), "no finite value was recorded"));
  RunReport report;
  report.steps = {{7, 3.5, 0}};
  const std::string html = render_report_html(report);
  expect_sound(html);
  EXPECT_TRUE(has(html, "3.500"));
  EXPECT_FALSE(has(html, "Throughput"));  // no rate was measured
}

TEST(RunReport, LossesThatAreNoNumbersAreCountedNotDrawn) {
  RunReport report = sample_report(500);
  report.steps[100].loss = std::nan("");
  report.steps[101].loss = std::numeric_limits<double>::infinity();
  report.held_out.push_back({400, std::nan("")});
  report.references.push_back({"broken", -std::numeric_limits<double>::infinity()});
  const std::string html = render_report_html(report);
  expect_sound(html);
  EXPECT_TRUE(has(html, "not a finite number: 2 of 500"));
  EXPECT_TRUE(has(html, "null"));
  EXPECT_FALSE(has(html, "[nan") || has(html, ",nan") || has(html, ",inf"));
  for (auto& step : report.steps) step.loss = std::nan("");
  expect_sound(render_report_html(report));
}

TEST(RunReport, ASpikeDoesNotFlattenTheCurveAndIsNamed) {
  RunReport report = sample_report(1000);
  report.steps[333].loss = 1e6;
  const std::string html = render_report_html(report);
  EXPECT_TRUE(has(html, "above the picture: 1, the highest 1e+06 at step 333."));
  EXPECT_FALSE(has(html, "data-y=\"2 1e+06"));
  EXPECT_FALSE(has(render_report_html(sample_report(1000)), "above the picture"));
}

TEST(RunReport, AStepRunTwiceCountsOnceAsLastRun) {
  RunReport report;
  report.steps = {{0, 5, 1}, {1, 4, 1}, {2, 9, 1}, {1, 4, 1}, {2, 3, 1}};
  const std::string html = render_report_html(report);
  EXPECT_TRUE(has(html, "\"step\":[0,1,2],\n\"loss\":[5,4,3]"));
}

TEST(RunReport, ALongRunStaysASmallPage) {
  const std::string html = render_report_html(sample_report(100'000));
  expect_sound(html);
  EXPECT_LT(html.size(), 600'000U);
}

}  // namespace
}  // namespace weft
