#include "weft/cli/front/bench_svg.h"

#include <charconv>
#include <cmath>

#include "weft/base/text.h"
#include "weft/monitor/html.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/table.h"

namespace weft::cli {

std::string px(double value) { return fixed_text(value, 1); }

std::string text_at(double x, double y, int size, const char* colour, const char* anchor, std::string_view text,
                    std::string_view more) {
  return cat("<text x=\"", px(x), "\" y=\"", px(y), "\" font-size=\"", size, "\" fill=\"", colour, "\" text-anchor=\"",
             anchor, "\"", more, ">", escape_html(text), "</text>\n");
}

std::string rectangle(double x, double y, double width, double height, double radius, std::string_view look) {
  return cat("<rect x=\"", px(x), "\" y=\"", px(y), "\" width=\"", px(width), "\" height=\"", px(height), "\" rx=\"",
             px(radius), "\" ", look, "/>\n");
}

std::string filled(std::string_view colour, double strength) {
  std::string out = "fill=\"#";
  for (size_t i = 1; i < 7; i += 2) {
    unsigned channel = 0;
    std::from_chars(colour.data() + i, colour.data() + i + 2, channel, 16);
    const auto mixed = static_cast<unsigned>(std::lround(255 - (255 - static_cast<double>(channel)) * strength));
    for (const unsigned digit : {mixed / 16, mixed % 16}) out += "0123456789abcdef"[digit];
  }
  return out + "\"";
}

std::string line_between(double x1, double y1, double x2, double y2, std::string_view look) {
  return cat("<line x1=\"", px(x1), "\" y1=\"", px(y1), "\" x2=\"", px(x2), "\" y2=\"", px(y2), "\" ", look, "/>\n");
}

std::string dot_at(double x, double y, const char* colour) {
  return cat("<circle cx=\"", px(x), "\" cy=\"", px(y), "\" r=\"2.4\" fill=\"", colour, "\"/>\n");
}

std::string paragraph(double y, int size, int letters, const std::string& text) {
  std::string out;
  for (const std::string& piece : wrap_columns(text, letters)) {
    out += text_at(kSvgMargin, y, size, kMuted, "start", piece);
    y += size + 6;
  }
  return out;
}

double strength_of(const sim::Schedule& schedule, size_t num_contributions) {
  return 0.15 + 0.75 * static_cast<double>(num_contributions) / schedule.problem.world;
}

}  // namespace weft::cli
