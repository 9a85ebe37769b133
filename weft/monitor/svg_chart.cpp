#include "weft/monitor/svg_chart.h"

#include <algorithm>
#include <cmath>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/html.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/svg_plot_impl.h"

namespace weft {
namespace {

using detail::kLetterWidth, detail::pixels, detail::PlotFrame, detail::svg_opening;

constexpr double kLineHeight = 16;

struct Axis {
  std::vector<double> ticks;
  std::vector<std::string> labels;
};

std::string text_at(double x, double y, std::string_view classes, std::string_view anchor, std::string_view text) {
  return cat("<text class=\"", classes, "\" x=\"", pixels(x), "\" y=\"", pixels(y), "\" text-anchor=\"", anchor, "\">",
             escape_html(text), "</text>\n");
}

std::string line_between(double x1, double y1, double x2, double y2, std::string_view classes) {
  return cat("<line class=\"", classes, "\" x1=\"", pixels(x1), "\" y1=\"", pixels(y1), "\" x2=\"", pixels(x2),
             "\" y2=\"", pixels(y2), "\"/>\n");
}

std::string circle_at(double x, double y, double radius, std::string_view classes) {
  return cat("<circle class=\"", classes, "\" cx=\"", pixels(x), "\" cy=\"", pixels(y), "\" r=\"", pixels(radius),
             "\"/>\n");
}

bool has_points(const Chart& chart) {
  const auto drawable = [](const ChartPoint& point) { return is_drawable(point.y); };
  return std::ranges::any_of(chart.series, [&](const auto& s) { return std::ranges::any_of(s.points, drawable); });
}

ChartRange x_range_of(const Chart& chart) {
  RangeFinder found;
  for (const auto& series : chart.series) {
    for (const auto& point : series.points) found.add(point.x);
  }
  return found.range();
}

ChartRange value_range(const Chart& chart) {
  if (chart.y_range) return *chart.y_range;
  RangeFinder found;
  for (const auto& series : chart.series) {
    for (const auto& point : series.points) found.add(point.y);
  }
  for (const auto& reference : chart.references) found.add(reference.value);
  if (chart.y_from_zero) found.add(0);
  return found.range();
}

// Values this near to zero have no ratio that a double can hold.
bool uses_log(const Chart& chart) { return chart.log_y && value_range(chart).low > 1e-30; }

ChartRange linear_range(const Chart& chart, ChartRange found) {
  ChartRange range = padded(found, 0.06);
  if (chart.y_from_zero && found.low >= 0) range.low = 0;
  return range;
}

double widest_label(const std::vector<std::string>& labels) {
  size_t letters = 1;
  for (const auto& label : labels) letters = std::max(letters, label.size());
  return static_cast<double>(letters) * kLetterWidth;
}

Axis make_axis(std::vector<double> ticks) {
  auto labels = tick_labels(ticks);
  return {std::move(ticks), std::move(labels)};
}

Axis make_y_axis(ChartRange range, double room, bool log_y) {
  const int wanted = std::max(2, static_cast<int>(room / 42));
  return make_axis(log_y ? nice_log_ticks(range, wanted) : nice_ticks(range, wanted));
}

Axis make_x_axis(ChartRange range, double room, bool whole) {
  const double distance = std::clamp(room / 8, 60.0, 100.0);
  return make_axis(nice_ticks(range, std::max(2, static_cast<int>(room / distance)), whole));
}

// The ends of a range on a logarithmic axis grow by a factor, not by a width.
ChartRange log_padded(ChartRange range) {
  const double factor = std::pow(range.high / range.low, 0.06);
  return {range.low / factor, range.high * factor};
}

std::string draw_axes(const Chart& chart, const PlotFrame& frame, const Axis& x, const Axis& y) {
  std::string out = "<g class=\"grid\" stroke=\"currentColor\" stroke-opacity=\".15\">\n";
  for (const double tick : y.ticks)
    out += line_between(frame.left, frame.to_y(tick), frame.right, frame.to_y(tick), "");
  out += "</g>\n<g class=\"axis\" fill=\"currentColor\">\n";
  for (size_t i = 0; i < y.ticks.size(); ++i) {
    out += text_at(frame.left - 10, frame.to_y(y.ticks[i]) + 4.5, "tick", "end", y.labels[i]);
  }
  for (size_t i = 0; i < x.ticks.size(); ++i) {
    const double at = frame.to_x(x.ticks[i]);
    out += line_between(at, frame.bottom, at, frame.bottom + 5, "notch");
    out += text_at(at, frame.bottom + 21, "tick", "middle", x.labels[i]);
  }
  out += line_between(frame.left, frame.bottom, frame.right, frame.bottom, "base");
  out += text_at(frame.left, frame.top - 12, "name", "start", chart.y_label);
  out += text_at((frame.left + frame.right) / 2, frame.bottom + 42, "name", "middle", chart.x_label);
  return out + "</g>\n";
}

// One subpath for each run of drawable points.
std::string path_through(const std::vector<ChartPoint>& points, const PlotFrame& frame) {
  std::string path;
  bool pen_down = false;
  for (const auto& point : points) {
    const bool good = is_drawable(point.y);
    if (good) path += cat(pen_down ? "L" : "M", pixels(frame.to_x(point.x)), " ", pixels(frame.to_y(point.y)));
    pen_down = good;
  }
  return path;
}

// A run of one point has no length, so no stroke: it needs a dot.
std::string lone_dots(const std::vector<ChartPoint>& points, const PlotFrame& frame, std::string_view classes) {
  std::string out;
  const auto good = [&](size_t i) { return i < points.size() && is_drawable(points[i].y); };
  for (size_t i = 0; i < points.size(); ++i) {
    const bool alone = good(i) && !good(i + 1) && (i == 0 || !good(i - 1));
    if (alone) out += circle_at(frame.to_x(points[i].x), frame.to_y(points[i].y), 2.5, classes);
  }
  return out;
}

const ChartPoint* last_drawable(const std::vector<ChartPoint>& points) {
  const auto last = std::find_if(points.rbegin(), points.rend(), [](const auto& p) { return is_drawable(p.y); });
  return last == points.rend() ? nullptr : &*last;
}

bool has_end_mark(const ChartSeries& series) {
  return (series.look == SeriesLook::kLine || series.look == SeriesLook::kOther) && last_drawable(series.points);
}

// How far a value moves so that it does not lie on that of another line which ends beside it.
double end_shift(const Chart& chart, const ChartSeries& series, const PlotFrame& frame) {
  const ChartPoint& mine = *last_drawable(series.points);
  for (const ChartSeries& other : chart.series) {
    if (&other == &series || !has_end_mark(other)) continue;
    const ChartPoint& its = *last_drawable(other.points);
    const double apart = frame.to_y(mine.y) - frame.to_y(its.y);
    if (std::fabs(apart) >= kLineHeight || std::fabs(frame.to_x(mine.x) - frame.to_x(its.x)) >= 56) continue;
    const bool is_below = apart > 0 || (apart == 0 && series.look == SeriesLook::kOther);
    return (is_below ? 1 : -1) * (kLineHeight - std::fabs(apart)) / 2;
  }
  return 0;
}

std::string end_mark(const Chart& chart, const ChartSeries& series, const PlotFrame& frame) {
  if (!has_end_mark(series)) return "";
  const ChartPoint& last = *last_drawable(series.points);
  const double x = frame.to_x(last.x), y = frame.to_y(last.y) + end_shift(chart, series, frame);
  const std::string value = std::fabs(last.y) < 1000 ? loss_text(last.y) : format_count(std::llround(last.y));
  return text_at(x + 9, y + 4.5, "value", "start", value);
}

std::string draw_series(const Chart& chart, const ChartSeries& series, const PlotFrame& frame) {
  const auto points = thinned(series.points, static_cast<int>(frame.right - frame.left));
  const bool faint = series.look == SeriesLook::kFaint;
  std::string out = cat("<g class=\"", class_of(series.look), "\" fill=\"currentColor\" stroke=\"currentColor\"",
                        faint ? " opacity=\".3\"" : "", ">\n");
  if (const std::string path = path_through(points, frame); !path.empty()) {
    out += cat("<path fill=\"none\" stroke-linejoin=\"round\" d=\"", path, "\"/>\n");
  }
  if (series.look == SeriesLook::kDots) {
    for (const auto& point : points) {
      if (is_drawable(point.y)) out += circle_at(frame.to_x(point.x), frame.to_y(point.y), 3.5, "dot");
    }
  } else {
    out += lone_dots(points, frame, "dot");
  }
  return out + end_mark(chart, series, frame) + "</g>\n";
}

// A red notch on the base line for each x whose value was not a number; one per pixel at most.
std::string draw_gaps(const Chart& chart, const PlotFrame& frame) {
  std::string out;
  double drawn_at = -1;
  for (const auto& series : chart.series) {
    if (series.look != SeriesLook::kFaint) continue;
    for (const auto& point : series.points) {
      const double at = frame.to_x(point.x);
      if (is_drawable(point.y) || std::fabs(at - drawn_at) < 1) continue;
      out += line_between(at, frame.bottom - 8, at, frame.bottom, "gap");
      drawn_at = at;
    }
  }
  return out.empty() ? out : cat("<g class=\"gaps\" stroke=\"#c0392b\" stroke-width=\"2\">\n", out, "</g>\n");
}

// Names sit on their lines at the right, where a falling curve leaves room; those too near each other move apart.
std::string draw_references(const Chart& chart, const PlotFrame& frame) {
  auto references = chart.references;
  std::erase_if(references, [&](const auto& r) { return !frame.y.contains(r.value); });
  std::ranges::sort(references, std::greater<>(), &ChartReference::value);
  std::string out = "<g class=\"reference\" fill=\"currentColor\" stroke-dasharray=\"2 4\">\n";
  double free_from = frame.top;
  for (const auto& reference : references) {
    const double y = frame.to_y(reference.value);
    const double text_y = std::max(y - 6, free_from + 10);
    free_from = text_y + kLineHeight - 10;
    out += line_between(frame.left, y, frame.right, y, "rule");
    out += cat("<text class=\"label\" x=\"", pixels(frame.right - 4), "\" y=\"", pixels(text_y),
               "\" text-anchor=\"end\">", escape_html(reference.name), "<tspan class=\"value\" dx=\"8\">",
               loss_text(reference.value), "</tspan></text>\n");
  }
  return references.empty() ? "" : out + "</g>\n";
}

}  // namespace

const char* class_of(SeriesLook look) {
  switch (look) {
    case SeriesLook::kLine: return "line";
    case SeriesLook::kFaint: return "faint";
    case SeriesLook::kDots: return "dots";
    case SeriesLook::kOther: return "other";
  }
  return "line";
}

ChartRange drawn_y_range(const Chart& chart) {
  const ChartRange values = value_range(chart);
  return uses_log(chart) ? log_padded(values) : linear_range(chart, values);
}

std::string render_svg(const Chart& chart, ChartSize size) {
  const bool log_y = uses_log(chart);
  const ChartRange x = x_range_of(chart), y = drawn_y_range(chart);
  const Axis y_axis = make_y_axis(y, size.height - 80, log_y);
  const PlotFrame frame{.left = widest_label(y_axis.labels) + 12,
                        .top = 30,
                        .right = size.width - 56.0,
                        .bottom = size.height - 48.0,
                        .x = x,
                        .y = y,
                        .log_y = log_y};
  std::string out = svg_opening({"chart", chart.id, chart.title, chart.description}, size, frame);
  if (!has_points(chart)) {
    return out + text_at(size.width / 2.0, size.height / 2.0, "empty", "middle", "no finite value was recorded") +
           "</svg>\n";
  }
  out += draw_axes(chart, frame, make_x_axis(x, frame.right - frame.left, chart.whole_x), y_axis);
  for (const auto& series : chart.series) {
    if (series.look == SeriesLook::kFaint) out += draw_series(chart, series, frame);
  }
  out += draw_references(chart, frame);
  for (const auto& series : chart.series) {
    if (series.look != SeriesLook::kFaint) out += draw_series(chart, series, frame);
  }
  if (chart.mark_gaps) out += draw_gaps(chart, frame);
  return out + "</svg>\n";
}

}  // namespace weft
