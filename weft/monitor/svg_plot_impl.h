// What pictures with two axes share: where data lands, and the text around it. Pure functions, any thread, no failure.
#pragma once

#include <string>
#include <string_view>

#include "weft/monitor/svg_chart.h"

namespace weft::detail {

inline constexpr double kLetterWidth = 7.6;  // in px, for 13 px text; generous: a label must not touch the plot

// Where data lands on the picture.
struct PlotFrame {
  double left, top, right, bottom;
  ChartRange x, y;
  bool log_y = false;

  double to_x(double value) const;
  // A value outside lands on the edge.
  double to_y(double value) const;
};

// "12.5"; "12" for 12.
std::string pixels(double value);

struct SvgHead {
  std::string_view classes, id, title, description;
};
// The <svg> tag, title and description; its data- attributes tell a page's script where the plot is.
std::string svg_opening(const SvgHead& head, ChartSize size, const PlotFrame& frame);

}  // namespace weft::detail
