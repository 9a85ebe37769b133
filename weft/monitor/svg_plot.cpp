#include <algorithm>
#include <cmath>

#include "weft/base/text.h"
#include "weft/monitor/html.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/svg_plot_impl.h"

namespace weft::detail {

double PlotFrame::to_x(double value) const { return left + (value - x.low) / x.span() * (right - left); }

double PlotFrame::to_y(double value) const {
  const double inside = std::clamp(value, y.low, y.high);
  const double share = log_y ? std::log(inside / y.low) / std::log(y.high / y.low) : (inside - y.low) / y.span();
  return bottom - share * (bottom - top);
}

std::string pixels(double value) {
  std::string text = fixed_text(value, 1);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string svg_opening(const SvgHead& head, ChartSize size, const PlotFrame& frame) {
  const auto both = [](ChartRange range) { return cat(range.low, " ", range.high); };
  return cat("<svg class=\"", head.classes, "\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", size.width, " ",
             size.height, "\" role=\"img\" aria-labelledby=\"", head.id, "-title ", head.id,
             "-desc\" font-size=\"13\" data-plot=\"", pixels(frame.left), " ", pixels(frame.top), " ",
             pixels(frame.right), " ", pixels(frame.bottom), "\" data-x=\"", both(frame.x), "\" data-y=\"",
             both(frame.y), "\"", frame.log_y ? " data-log-y=\"1\"" : "", ">\n<title id=\"", head.id, "-title\">",
             escape_html(head.title), "</title>\n<desc id=\"", head.id, "-desc\">", escape_html(head.description),
             "</desc>\n");
}

}  // namespace weft::detail
