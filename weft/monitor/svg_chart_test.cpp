#include "weft/monitor/svg_chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/text.h"
#include "weft/base/text.h"

namespace weft {
namespace {

using test::count_of;
using test::has;

const double kNan = std::nan("");
const double kInf = std::numeric_limits<double>::infinity();

Chart chart_of(std::vector<ChartPoint> points, SeriesLook look = SeriesLook::kLine) {
  Chart chart{.id = "c", .title = "Loss", .description = "d", .x_label = "step", .y_label = "loss"};
  chart.series.push_back({.name = "s", .look = look, .points = std::move(points)});
  return chart;
}

TEST(Ticks, AreRoundAndInside) {
  EXPECT_EQ(nice_ticks({0, 10}, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(nice_ticks({1.93, 3.1}, 3), (std::vector<double>{2, 2.5, 3}));
  EXPECT_EQ(nice_ticks({0, 1.5}, 4, true), (std::vector<double>{0, 1}));
  EXPECT_EQ(nice_log_ticks({1.8, 12}, 6), (std::vector<double>{2, 3, 5, 7, 10}));
  EXPECT_EQ(tick_labels(nice_log_ticks({2.1, 2.4}, 3)), (std::vector<std::string>{"2.1", "2.2", "2.3", "2.4"}));
  EXPECT_LE(nice_log_ticks({1e-200, 1e200}, 5).size(), 7U);
}

TEST(Ticks, StayFewForExtremeRanges) {
  for (const ChartRange range : {ChartRange{-1e299, 1e299}, {1e15, 1e15 + 0.25}, {0, 1e-300}, {-5e-324, 5e-324}}) {
    EXPECT_LE(nice_ticks(range, 5).size(), 100U);
  }
}

TEST(Ticks, LabelsShareTheirDecimals) {
  EXPECT_EQ(tick_labels(std::vector<double>{2, 2.5, 3}), (std::vector<std::string>{"2.0", "2.5", "3.0"}));
  EXPECT_EQ(tick_labels(std::vector<double>{0, 500, 1000}), (std::vector<std::string>{"0", "500", "1,000"}));
  EXPECT_EQ(tick_labels(std::vector<double>{0, 20000, 40000}), (std::vector<std::string>{"0", "20K", "40K"}));
  EXPECT_EQ(tick_labels(std::vector<double>{0.001, 0.002}), (std::vector<std::string>{"0.001", "0.002"}));
}

TEST(Range, WidensWhatHasNoWidth) {
  RangeFinder found;
  EXPECT_EQ(found.range().span(), 1);
  found.add(kNan);
  found.add(kInf);
  EXPECT_TRUE(found.empty());
  found.add(3);
  EXPECT_GT(found.range().span(), 0.1);
  EXPECT_TRUE(found.range().contains(3));
}

TEST(Smoothing, KeepsTheStartAndIgnoresALoneSpike) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 1000; ++i) points.push_back({double(i), i == 500 ? 1e6 : 3.0});
  points[0].y = 11;
  points[700].y = kNan;
  const auto smooth = smoothed(points);
  EXPECT_EQ(smooth[0].y, 11);
  EXPECT_DOUBLE_EQ(smooth[500].y, 3);
  EXPECT_DOUBLE_EQ(smooth[701].y, 3);
  EXPECT_TRUE(std::isnan(smooth[700].y));
}

TEST(Thinning, KeepsExtremesAndOrderInABoundedSize) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 1'000'000; ++i) points.push_back({double(i), std::sin(i * 0.001)});
  points[654'321].y = 99;
  points[654'322].y = -99;
  const auto thin = thinned(points, 800);
  EXPECT_LE(thin.size(), 4U * 801);
  EXPECT_EQ(thin.front().x, 0);
  EXPECT_EQ(thin.back().x, 999'999);
  EXPECT_TRUE(std::ranges::any_of(thin, [](const auto& p) { return p.y == 99; }));
  EXPECT_TRUE(std::ranges::any_of(thin, [](const auto& p) { return p.y == -99; }));
  EXPECT_TRUE(std::ranges::is_sorted(thin, {}, &ChartPoint::x));
  EXPECT_EQ(thinned(std::span(points).first(2000), 10).size(), 2000U);
}

TEST(Thinning, GapsStayGaps) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 10'000; ++i) points.push_back({double(i), i >= 4000 && i < 6000 ? kNan : 1.0});
  const auto thin = thinned(points, 100);
  EXPECT_EQ(std::ranges::count_if(thin, [](const auto& p) { return std::isnan(p.y); }), 20);
  EXPECT_LE(thin.size(), 404U);
}

TEST(SvgChart, DrawsALineWithAxesAndItsLastValue) {
  const std::string svg = render_svg(chart_of({{0, 4}, {100, 2}}), {});
  EXPECT_TRUE(has(svg, "<title id=\"c-title\">Loss</title>"));
  EXPECT_TRUE(has(svg, "role=\"img\""));
  EXPECT_EQ(count_of(svg, "<path"), 1U);
  EXPECT_TRUE(has(svg, ">2.000</text>"));
  EXPECT_TRUE(has(svg, ">step</text>"));
}

TEST(SvgChart, BreaksTheLineAtGapsAndMarksThem) {
  Chart chart = chart_of({{0, 1}, {1, 2}, {2, kNan}, {3, 1}, {4, kInf}, {5, 3}}, SeriesLook::kFaint);
  chart.mark_gaps = true;
  const std::string svg = render_svg(chart, {});
  EXPECT_EQ(count_of(svg, "class=\"gap\""), 2U);
  const size_t path = svg.find(" d=\"");
  EXPECT_EQ(count_of(svg.substr(path, svg.find('"', path + 4) - path), "M"), 3U);
  EXPECT_EQ(count_of(svg, "class=\"dot\""), 2U);  // the two points that stand alone
}

TEST(SvgChart, NothingToDrawIsSaid) {
  for (const auto& points : {std::vector<ChartPoint>{}, {{0, kNan}}, {{0, kInf}, {1, -kInf}}}) {
    EXPECT_TRUE(has(render_svg(chart_of(points), {}), "no finite value"));
  }
}

TEST(SvgChart, CoordinatesAreAlwaysFinite) {
  const std::vector<std::vector<ChartPoint>> cases = {{{5, 3}},
                                                      {{0, 0}, {1, 0}},
                                                      {{0, -1e299}, {1, 1e299}},
                                                      {{0, 1e-310}, {1, 2e-310}},
                                                      {{1e18, 3}, {1e18, 4}},
                                                      {{0, 1e308}, {1, 2}}};
  for (const auto& points : cases) {
    for (const bool log_y : {false, true}) {
      Chart chart = chart_of(points);
      chart.log_y = log_y;
      chart.references = {{"far", kNan}, {"near", 3}};
      const std::string svg = render_svg(chart, {.width = 320, .height = 200});
      EXPECT_FALSE(has(svg, "nan\"") || has(svg, "=\"inf") || has(svg, "=\"-inf") || has(svg, "Lnan") ||
                   has(svg, "Mnan"))
          << svg;
    }
  }
}

TEST(SvgChart, LogAxisNeedsPositiveValues) {
  Chart chart = chart_of({{0, 10}, {1, 1}});
  chart.log_y = true;
  EXPECT_TRUE(has(render_svg(chart, {}), "data-log-y"));
  chart.series[0].points.push_back({2, -1});
  EXPECT_FALSE(has(render_svg(chart, {}), "data-log-y"));
}

TEST(SvgChart, NamesOfNeighbouringReferencesDoNotOverlap) {
  Chart chart = chart_of({{0, 10}, {1, 1}});
  chart.references = {{"b", 5.00}, {"a", 5.01}, {"c", 4.99}};
  const std::string svg = render_svg(chart, {});
  std::vector<double> heights;
  for (size_t at = svg.find("class=\"label\""); at != std::string::npos; at = svg.find("class=\"label\"", at + 1)) {
    heights.push_back(std::stod(svg.substr(svg.find(" y=\"", at) + 4)));
  }
  ASSERT_EQ(heights.size(), 3U);
  EXPECT_GE(heights[1] - heights[0], 14);
  EXPECT_GE(heights[2] - heights[1], 14);
}

TEST(SvgChart, TextIsEscaped) {
  Chart chart = chart_of({{0, 1}, {1, 2}});
  chart.title = chart.description = chart.x_label = chart.y_label = "</svg><script>alert('1')</script>\xFF";
  chart.references = {{"<b>", 1.5}};
  const std::string svg = render_svg(chart, {});
  EXPECT_FALSE(has(svg, "<script"));
  EXPECT_FALSE(has(svg, "<b>"));
  EXPECT_EQ(count_of(svg, "</svg>"), 1U);
}

}  // namespace
}  // namespace weft
