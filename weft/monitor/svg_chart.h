// A small line chart as SVG text: axes with round ticks, lines, dots, and reference lines with their names on them.
//
//   Chart chart{.id = "loss", .title = "Loss", .x_label = "step"};
//   chart.series.push_back({.name = "loss", .look = SeriesLook::kLine, .points = points});
//   page += render_svg(chart, {.width = 960, .height = 400});
//
// The markup carries class names (grid, axis, faint, line, dots, reference) and plain fallback colours, so a page
// styles it and the file still reads on its own. The plot's place and ranges are in data- attributes for a script to
// use. Pure function, any thread, no failure: empty and broken data give a chart that says so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/monitor/chart_data.h"

namespace weft {

enum class SeriesLook {
  kLine,   // the line to read; ends in a dot with its value
  kFaint,  // raw data behind it
  kDots,   // sparse measurements, joined by a thin line
  kOther,  // a second line to read beside the first
};

// "line", "faint": the class of its group in the markup.
const char* class_of(SeriesLook look);

struct ChartSeries {
  std::string name;
  SeriesLook look = SeriesLook::kLine;
  std::vector<ChartPoint> points = {};  // x ascending and drawable
};

struct ChartReference {
  std::string name;
  double value = 0;
};

struct Chart {
  std::string id;                // unique in its page; letters, digits and '-'
  std::string title;             // for readers of the markup, not drawn
  std::string description = {};  // likewise: one or two sentences that say what the chart shows
  std::string x_label = {};
  std::string y_label = {};
  std::vector<ChartSeries> series = {};
  std::vector<ChartReference> references = {};
  std::optional<ChartRange> y_range = {};  // default: all of the data; what lies outside is drawn at the edge
  bool y_from_zero = false;
  bool log_y = false;      // ignored where a value shown is not above zero
  bool mark_gaps = false;  // a red notch at the base for each x of a faint series without a value
  bool whole_x = true;     // x counts something, so ticks are whole numbers
};

// In CSS pixels at natural size; text is 13 of them high, so pick sizes near those on screen.
struct ChartSize {
  int width = 960;
  int height = 400;
};

// The part of y that is drawn, margins included.
ChartRange drawn_y_range(const Chart& chart);

std::string render_svg(const Chart& chart, ChartSize size);

}  // namespace weft
