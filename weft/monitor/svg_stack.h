// Amounts stacked over x as SVG text: where the time of each step went, over a run. Long series are drawn as columns of
// means, with the largest total of each column as a line above, so that one slow step in a million stays visible.
//
// As svg_chart.h: class names part-0, part-1, ... for the page to colour, data- attributes for a script. Pure function, any
// thread, no failure.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "weft/monitor/svg_chart.h"

namespace weft {

inline constexpr size_t kMaxStackLayers = 8;

struct StackColumn {
  double x = 0;                                 // of its first step
  std::array<double, kMaxStackLayers> means{};  // of each layer
  double largest_total = 0;                     // of one step in it
};

struct StackChart {
  std::string id;
  std::string title, description, x_label, y_label;
  size_t num_layers = 0;
  std::vector<StackColumn> columns;  // x ascending, amounts drawable and not negative
};

std::string render_stack_svg(const StackChart& chart, ChartSize size);

}  // namespace weft
