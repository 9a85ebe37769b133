#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>

#include "weft/base/text.h"
#include "weft/config/lower.h"
#include "weft/config/number_impl.h"

namespace weft::config {
namespace {

// Where the first digit that counts stands: 3 for 123, -2 for 0.00123. Requires: some digit is not 0.
int64_t magnitude_of(std::string_view mantissa) {
  const auto first = static_cast<int64_t>(mantissa.find_first_of("123456789"));
  const auto dot = static_cast<int64_t>(std::min(mantissa.find('.'), mantissa.size()));
  return first < dot ? dot - first : dot - first + 1;
}

// from_chars tells that a number is out of range, not on which side.
bool is_too_large(std::string_view digits) {
  const size_t mark = std::min(digits.find_first_of("eE"), digits.size());
  std::string_view exponent = digits.substr(std::min(mark + 1, digits.size()));
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  int64_t power = 0;
  const auto [end, error] = std::from_chars(exponent.data(), exponent.data() + exponent.size(), power);
  if (error == std::errc::result_out_of_range) return !exponent.starts_with('-');
  return magnitude_of(digits.substr(0, mark)) + power > 0;
}

bool has_fraction_or_exponent(std::string_view digits) { return digits.find_first_of(".eE") != std::string_view::npos; }

}  // namespace

std::optional<double> read_double(std::string_view digits) {
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc::result_out_of_range) return number;
  return is_too_large(digits) ? std::nullopt : std::optional(0.0);
}

Value number_value(const SourcePtr& source, Span span, std::string_view digits) {
  constexpr double kIntegralBelow = 1e10;
  Value value{.kind = Kind::kInt, .span = span};
  if (!has_fraction_or_exponent(digits)) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value.integer);
    if (error != std::errc()) refuse_large_number(source, span);
    return value;
  }
  const auto number = read_double(digits);
  if (!number) refuse_large_number(source, span);
  if (std::trunc(*number) == *number && std::abs(*number) < kIntegralBelow) {
    value.integer = static_cast<int64_t>(*number);
    return value;
  }
  value.kind = Kind::kReal;
  value.real = *number;
  return value;
}

bool is_no_number(std::string_view word) {
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  const std::string name = lower(word.substr(0, 9));
  return word.size() == name.size() && (name == "infinity" || name == "inf" || name == "nan");
}

void refuse_no_number(const SourcePtr& source, Span span) {
  const std::string_view word = source->at(span);
  throw ReadError("syntax/not-a-number", source, span,
                  {cat(word, " is not a number that a config can hold"), cat(word, " 不是配置中可以使用的数值")},
                  {"write a number, or leave the setting out", "请写一个具体的数值，或删去该项"});
}

void refuse_large_number(const SourcePtr& source, Span span) {
  throw ReadError("syntax/number-too-large", source, span,
                  {"this number is too large: integers must fit in 64 bits, others must be below 1.8e308",
                   "数值过大：整数须在 64 位以内，其他数值须小于 1.8e308"},
                  {"write a smaller number; a digit too many is easily typed", "请改用较小的数值，检查是否多写了几位"});
}

}  // namespace weft::config
