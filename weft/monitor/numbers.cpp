#include "weft/monitor/numbers.h"

#include <charconv>
#include <cmath>

#include "weft/base/text.h"

namespace weft {
namespace {

std::string two_digits(int64_t value) { return cat(value < 10 ? "0" : "", value); }

std::string not_finite(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

}  // namespace

std::string fixed_text(double value, int decimals) {
  if (!std::isfinite(value)) return not_finite(value);
  if (std::fabs(value) >= 1e15) return significant_text(value, 4);
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, decimals).ptr;
  std::string text(digits, end);
  const bool is_zero = text.find_first_not_of("-0.") == std::string::npos;
  if (is_zero && text.starts_with('-')) text.erase(0, 1);
  return text;
}

std::string significant_text(double value, int digits) {
  if (!std::isfinite(value)) return not_finite(value);
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits).ptr};
}

std::string grouped_text(int64_t value) {
  const std::string digits = cat(value);
  const size_t sign = value < 0 ? 1 : 0;
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > sign && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string short_duration_text(double seconds) {
  constexpr double kLongest_s = 1e10;  // three hundred years: a guess gone wrong, not a duration
  if (!(seconds >= 0) || seconds > kLongest_s) return "?";
  const auto s = static_cast<int64_t>(std::llround(seconds));
  if (s < 60) return cat(s, "s");
  if (s < 3600) return cat(s / 60, "m", two_digits(s % 60), "s");
  if (s < 86400) return cat(s / 3600, "h", two_digits(s / 60 % 60), "m");
  return cat(s / 86400, "d", two_digits(s / 3600 % 24), "h");
}

std::string loss_text(double value) {
  const double size = std::fabs(value);
  const bool plain = value == 0 || (size >= 0.01 && size < 10000);
  return plain ? fixed_text(value, 3) : significant_text(value, 3);
}

}  // namespace weft
