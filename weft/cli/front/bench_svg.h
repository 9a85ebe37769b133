// Pieces of SVG for the pictures of `weft bench comm --teach`. Free functions, any thread, no failure.
#pragma once

#include <string>
#include <string_view>

#include "weft/cli/front/bench_options.h"

namespace weft::cli {

inline constexpr double kSvgWidth = 900, kSvgMargin = 28;
inline constexpr const char *kInk = "#1f2328", *kMuted = "#57606a", *kPale = "#d8dee4";
inline constexpr const char *kFinal = "#2a9d76", *kPartial = "#4c78a8", *kArrow = "#b8651b";

// A length in pixels: "12.5".
std::string px(double value);
std::string text_at(double x, double y, int size, const char* colour, const char* anchor, std::string_view text,
                    std::string_view more = "");
std::string rectangle(double x, double y, double width, double height, double radius, std::string_view look);
std::string line_between(double x1, double y1, double x2, double y2, std::string_view look);
std::string dot_at(double x, double y, const char* colour);
// Lines of text at the left margin, `size` pixels high.
std::string paragraph(double y, int size, int letters, const std::string& text);
// fill="#..." of the colour mixed with white, so that nothing behind it shines through.
std::string filled(std::string_view colour, double strength);
// Of a sum of so many ranks' data.
double strength_of(const sim::Schedule& schedule, size_t num_contributions);

// A drawing, and where it ends.
struct Drawing {
  std::string svg;
  double bottom = 0;
};

// Lanes of ranks over time, an arrow for each message: for the algorithms that move the data whole.
Drawing draw_lanes(const sim::Schedule& schedule, double top);
// A square of ranks and parts after each step: for the rings, where every rank sends in every step.
Drawing draw_squares(const sim::Schedule& schedule, config::Language language, double top);

}  // namespace weft::cli
