#include "weft/monitor/svg_stack.h"

#include <algorithm>
#include <numeric>

#include "weft/base/quantile.h"
#include "weft/base/text.h"
#include "weft/monitor/html.h"
#include "weft/monitor/svg_plot_impl.h"

namespace weft {
namespace {

using detail::kLetterWidth, detail::pixels, detail::PlotFrame, detail::svg_opening;

// Room for the means, and for slow steps unless a few of them would press everything flat.
ChartRange y_range_of(const StackChart& chart) {
  std::vector<double> peaks;
  double means = 0;
  for (const StackColumn& column : chart.columns) {
    means = std::max(means, std::accumulate(column.means.begin(), column.means.end(), 0.0));
    peaks.push_back(column.largest_total);
  }
  if (peaks.empty()) return {0, 1};
  std::ranges::sort(peaks);
  const double most = peaks.back() > 2.5 * means ? std::max(means, nearest_rank(peaks, 0.95)) : peaks.back();
  return {0, std::max(1e-9, std::min(most, 3 * means) * 1.06)};
}

// Where column i ends: where the next begins, and the last as wide as the one before it.
double end_of(const StackChart& chart, size_t i) {
  const auto& columns = chart.columns;
  if (i + 1 < columns.size()) return columns[i + 1].x;
  return columns.size() > 1 ? 2 * columns[i].x - columns[i - 1].x : columns[i].x + 1;
}

double height_below(const StackColumn& column, size_t layer) {
  return std::accumulate(column.means.begin(), column.means.begin() + static_cast<std::ptrdiff_t>(layer), 0.0);
}

// Each column is a step of the outline: there is nothing between two steps that a slope could mean.
std::string layer_path(const StackChart& chart, const PlotFrame& frame, size_t layer) {
  std::string above, below;
  for (size_t i = 0; i < chart.columns.size(); ++i) {
    const StackColumn& column = chart.columns[i];
    const std::string from = pixels(frame.to_x(column.x)), to = pixels(frame.to_x(end_of(chart, i)));
    const std::string high = pixels(frame.to_y(height_below(column, layer + 1)));
    const std::string low = pixels(frame.to_y(height_below(column, layer)));
    above += cat(i == 0 ? "M" : "L", from, " ", high, "H", to);
    below = cat("L", to, " ", low, "H", from, below);
  }
  return above + below + "Z";
}

std::string largest_path(const StackChart& chart, const PlotFrame& frame) {
  std::string out;
  for (size_t i = 0; i < chart.columns.size(); ++i)
    out += cat(i == 0 ? "M" : "L", pixels(frame.to_x(chart.columns[i].x)), " ",
               pixels(frame.to_y(chart.columns[i].largest_total)), "H", pixels(frame.to_x(end_of(chart, i))));
  return out;
}

std::string axes(const StackChart& chart, const PlotFrame& frame, const std::vector<double>& y_ticks) {
  std::string out = "<g class=\"grid\" stroke=\"currentColor\" stroke-opacity=\".15\">\n";
  const auto text = [](double x, double y, std::string_view anchor, std::string_view words) {
    return cat("<text x=\"", pixels(x), "\" y=\"", pixels(y), "\" text-anchor=\"", anchor, "\">", escape_html(words),
               "</text>\n");
  };
  for (const double tick : y_ticks)
    out += cat("<line x1=\"", pixels(frame.left), "\" x2=\"", pixels(frame.right), "\" y1=\"", pixels(frame.to_y(tick)),
               "\" y2=\"", pixels(frame.to_y(tick)), "\"/>\n");
  out += "</g>\n<g class=\"axis\" fill=\"currentColor\">\n";
  const auto y_labels = tick_labels(y_ticks);
  for (size_t i = 0; i < y_ticks.size(); ++i)
    out += text(frame.left - 10, frame.to_y(y_ticks[i]) + 4.5, "end", y_labels[i]);
  const double room = frame.right - frame.left;
  const auto x_ticks =
      nice_ticks(frame.x, std::max(2, static_cast<int>(room / std::clamp(room / 8, 60.0, 100.0))), true);
  const auto x_labels = tick_labels(x_ticks);
  for (size_t i = 0; i < x_ticks.size(); ++i)
    out += text(frame.to_x(x_ticks[i]), frame.bottom + 21, "middle", x_labels[i]);
  out += text(frame.left, frame.top - 12, "start", chart.y_label);
  return out + text((frame.left + frame.right) / 2, frame.bottom + 42, "middle", chart.x_label) + "</g>\n";
}

}  // namespace

std::string render_stack_svg(const StackChart& chart, ChartSize size) {
  if (chart.columns.empty()) return "";
  const ChartRange y = y_range_of(chart);
  const auto y_ticks = nice_ticks(y, std::max(2, (size.height - 80) / 42));
  size_t letters = 1;
  for (const auto& label : tick_labels(y_ticks)) letters = std::max(letters, label.size());
  const PlotFrame frame{.left = static_cast<double>(letters) * kLetterWidth + 12,
                        .top = 30,
                        .right = size.width - 16.0,
                        .bottom = size.height - 48.0,
                        .x = {chart.columns.front().x, end_of(chart, chart.columns.size() - 1)},
                        .y = y};
  std::string out =
      svg_opening({"chart stack", chart.id, chart.title, chart.description}, size, frame) + axes(chart, frame, y_ticks);
  for (size_t layer = 0; layer < chart.num_layers; ++layer)
    out += cat("<path class=\"part-", layer, "\" d=\"", layer_path(chart, frame, layer), "\"/>\n");
  return out + cat("<path class=\"largest\" fill=\"none\" stroke=\"currentColor\" d=\"", largest_path(chart, frame),
                   "\"/>\n</svg>\n");
}

}  // namespace weft
