#include "weft/monitor/progress_line.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/numbers.h"

namespace weft {
namespace {

// Narrower than 8 a bar says less than its percentage; wider than 30 it says no more.
constexpr int kMinBarColumns = 8;
constexpr int kMaxBarColumns = 30;
constexpr int kGapColumns = 2;

struct Part {
  int importance;         // 0 is kept the longest
  std::string text = {};  // empty: nothing to say
  Style look = Style::kPlain;
  bool is_bar = false;
  bool kept = false;
};

std::string padded_left(std::string text, size_t columns) {
  if (text.size() < columns) text.insert(0, columns - text.size(), ' ');
  return text;
}

bool fraction_known(const ProgressSample& sample) { return std::isfinite(sample.fraction); }

double clamped_fraction(const ProgressSample& sample) { return std::clamp(sample.fraction, 0.0, 1.0); }

// Rounded down: 100% means done.
std::string share_text(const ProgressSample& sample) {
  if (!fraction_known(sample)) return "";
  // The nudge keeps 0.29, which is stored a hair below, from reading 28%.
  return cat(static_cast<int>(clamped_fraction(sample) * 100 + 1e-9), "%");
}

std::string step_text(const ProgressSample& sample) {
  if (sample.total_steps <= 0) return cat(sample.unit, " ", sample.step);
  const std::string total = cat(sample.total_steps);
  return cat(sample.unit, " ", padded_left(cat(sample.step), total.size()), "/", total);
}

std::string rate_text(const ProgressSample& sample, std::string_view unit) {
  return std::isfinite(sample.tokens_per_s) && sample.tokens_per_s > 0
             ? cat(format_count(std::llround(sample.tokens_per_s)), unit)
             : "";
}

// Nothing once all is done: "0s left" beside 100% says nothing.
std::string left_text(const ProgressSample& sample) {
  const bool done = fraction_known(sample) && sample.fraction >= 1;
  return sample.eta_s >= 0 && !done ? short_duration_text(sample.eta_s) : "";
}

std::string unicode_bar(double fraction, int columns, const Terminal& terminal) {
  constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(fraction * columns * 8 + 1e-9);
  std::string done, rest;
  for (int i = 0; i < eighths / 8; ++i) done += "█";
  done += kEighths[eighths % 8];
  for (int i = (eighths + 7) / 8; i < columns; ++i) rest += "░";
  return style(done, Style::kGreen, terminal) + style(rest, Style::kDim, terminal);
}

std::string ascii_bar(double fraction, int columns, const Terminal& terminal) {
  const auto inside = static_cast<size_t>(columns - 2);
  const auto done = static_cast<size_t>(fraction * static_cast<double>(inside) + 1e-9);
  return cat("[", style(std::string(done, '#'), Style::kGreen, terminal), std::string(inside - done, '.'), "]");
}

// In the order of the line, left to right.
std::vector<Part> parts_of(std::string_view title, const ProgressSample& sample, const Terminal& terminal) {
  const std::string percent = share_text(sample), left = left_text(sample);
  const std::string bar = percent.empty() ? "" : std::string(kMinBarColumns, ' ');
  return {
      {.importance = 6, .text = printable(title, terminal), .look = Style::kBold},
      {.importance = 3, .text = bar, .is_bar = true},
      {.importance = 0, .text = percent.empty() ? "" : padded_left(percent, 4)},
      {.importance = 4, .text = step_text(sample)},
      {.importance = 1, .text = sample.loss ? cat("loss ", loss_text(*sample.loss)) : ""},
      {.importance = 5, .text = rate_text(sample, " tok/s")},
      {.importance = 2, .text = left.empty() ? "" : cat("ETA ", left), .look = Style::kDim},
  };
}

// Marks what fits, most important first, and returns the columns left over.
int keep_what_fits(std::vector<Part>& parts, int room) {
  std::vector<Part*> order;
  for (auto& part : parts) {
    if (!part.text.empty()) order.push_back(&part);
  }
  std::ranges::sort(order, {}, &Part::importance);
  bool first = true;
  for (Part* part : order) {
    const int needed = display_columns(part->text) + (first ? 0 : kGapColumns);
    if (needed > room) continue;
    part->kept = true;
    room -= needed;
    first = false;
  }
  return room;
}

std::string drawn(const Part& part, double fraction, int spare, const Terminal& terminal) {
  if (!part.is_bar) return style(part.text, part.look, terminal);
  const int columns = std::min(kMaxBarColumns, kMinBarColumns + spare);
  return terminal.unicode ? unicode_bar(fraction, columns, terminal) : ascii_bar(fraction, columns, terminal);
}

}  // namespace

std::string live_progress_line(std::string_view title, const ProgressSample& sample, const Terminal& terminal) {
  auto parts = parts_of(title, sample, terminal);
  const int spare = keep_what_fits(parts, terminal.columns - 1);
  const double fraction = fraction_known(sample) ? clamped_fraction(sample) : 0;
  std::string line;
  for (const auto& part : parts) {
    if (!part.kept) continue;
    if (!line.empty()) line += std::string(kGapColumns, ' ');
    line += drawn(part, fraction, spare, terminal);
  }
  return line;
}

std::string plain_progress_line(std::string_view title, const ProgressSample& sample, const Terminal& terminal) {
  std::string line = printable(title, terminal);
  if (!line.empty()) line += ": ";
  line += cat(sample.unit, " ", sample.step);
  if (sample.total_steps > 0) line += cat("/", sample.total_steps);
  if (fraction_known(sample)) line += cat(" (", share_text(sample), ")");
  if (sample.loss) line += cat(", loss ", loss_text(*sample.loss));
  if (sample.tokens_per_s > 0) line += cat(", ", rate_text(sample, " tokens/s"));
  if (const std::string left = left_text(sample); !left.empty()) line += cat(", ", left, " left");
  return line;
}

}  // namespace weft
