#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

#include "weft/base/text.h"
#include "weft/config/number_impl.h"
#include "weft/config/secret.h"
#include "weft/config/yaml_impl.h"

namespace weft::config {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kDigitsAndBars = "0123456789_";

// Takes what the pieces of YAML 1.1's number forms are made of off the front of a text.
class Eater {
 public:
  explicit Eater(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }
  bool one_of(std::string_view set) {
    if (rest_.empty() || set.find(rest_[0]) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }
  size_t run_of(std::string_view set) {
    const size_t length = std::min(rest_.find_first_not_of(set), rest_.size());
    rest_.remove_prefix(length);
    return length;
  }
  // [eE][-+][0-9]+, or with `bare` also without the sign.
  bool exponent(bool bare = false) {
    if (!one_of("eE")) return false;
    if (!one_of("-+") && !bare) return false;
    return run_of(kDigits) > 0;
  }
  // (:[0-5]?[0-9])+
  bool sixties() {
    bool some = false;
    while (one_of(":")) {
      const std::string_view from = rest_;
      const std::string_view part = from.substr(0, run_of(kDigits));
      if (part.empty() || part.size() > 2 || (part.size() == 2 && part[0] > '5')) return false;
      some = true;
    }
    return some;
  }

 private:
  std::string_view rest_;
};

bool is_bool(std::string_view text) {
  static constexpr std::array<std::string_view, 18> kWords = {"yes",   "Yes",   "YES",   "no",  "No",  "NO",
                                                              "true",  "True",  "TRUE",  "on",  "On",  "ON",
                                                              "false", "False", "FALSE", "off", "Off", "OFF"};
  return std::ranges::find(kWords, text) != kWords.end();
}

bool is_null(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

bool is_decimal_float(std::string_view text) {
  Eater eat(text);
  const bool sign = eat.one_of("-+");
  const bool whole = eat.one_of(kDigits);
  if (whole) eat.run_of(kDigitsAndBars);
  if (!eat.one_of(".")) return false;
  // Without digits before the dot there is no sign, and a digit follows.
  if (!whole && (sign || !eat.one_of(kDigits))) return false;
  eat.run_of(kDigitsAndBars);
  return eat.done() || (eat.exponent() && eat.done());
}

bool is_sixties_float(std::string_view text) {
  Eater eat(text);
  eat.one_of("-+");
  if (!eat.one_of(kDigits)) return false;
  eat.run_of(kDigitsAndBars);
  if (!eat.sixties() || !eat.one_of(".")) return false;
  eat.run_of(kDigitsAndBars);
  return eat.done();
}

std::string_view unsigned_part(std::string_view text) {
  return text.starts_with('-') || text.starts_with('+') ? text.substr(1) : text;
}

bool is_infinite(std::string_view text) {
  const std::string_view word = unsigned_part(text);
  return word == ".inf" || word == ".Inf" || word == ".INF" || text == ".nan" || text == ".NaN" || text == ".NAN";
}

bool is_int(std::string_view text) {
  const std::string_view digits = unsigned_part(text);
  const auto all = [&](size_t from, std::string_view set) {
    return digits.size() > from && digits.find_first_not_of(set, from) == std::string_view::npos;
  };
  if (digits == "0") return true;
  if (digits.starts_with("0b")) return all(2, "01_");
  if (digits.starts_with("0x")) return all(2, "0123456789abcdefABCDEF_");
  if (digits.starts_with('0')) return all(1, "01234567_");
  Eater eat(digits);
  if (!eat.one_of(kDigits)) return false;
  eat.run_of(kDigitsAndBars);
  return eat.done() || (eat.sixties() && eat.done());
}

std::string without_bars(std::string_view text) {
  std::string out(text);
  std::erase(out, '_');
  return out;
}

// 1:30:00 counts in sixties. Nothing when a part or the sum is too large.
std::optional<uint64_t> sum_of_sixties(std::string_view text) {
  uint64_t sum = 0;
  while (!text.empty()) {
    const std::string_view digits = text.substr(0, text.find(':'));
    uint64_t part = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), part);
    if (error != std::errc() || __builtin_mul_overflow(sum, uint64_t{60}, &sum)) return std::nullopt;
    if (__builtin_add_overflow(sum, part, &sum)) return std::nullopt;
    text.remove_prefix(std::min(text.size(), digits.size() + 1));
  }
  return sum;
}

std::optional<uint64_t> magnitude(std::string_view digits) {
  if (digits.find(':') != std::string_view::npos) return sum_of_sixties(digits);
  int base = 10;
  if (digits.starts_with("0b") || digits.starts_with("0x")) {
    base = digits[1] == 'b' ? 2 : 16;
    digits.remove_prefix(2);
  } else if (digits.starts_with('0')) {
    base = 8;
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

Value int_value(const SourcePtr& source, Span span, std::string_view text) {
  const std::string digits = without_bars(unsigned_part(text));
  const bool negative = text.starts_with('-');
  const auto size = magnitude(digits);
  const uint64_t limit = static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  if (!size || *size > limit) refuse_large_number(source, span);
  // Negated without a sign, where the smallest integer has no positive twin.
  const auto integer = static_cast<int64_t>(negative ? uint64_t{0} - *size : *size);
  return {.kind = Kind::kInt, .span = span, .integer = integer};
}

std::optional<double> sixties_double(std::string_view text) {
  const size_t last = text.rfind(':');
  if (last == std::string_view::npos) return read_double(text);
  const auto whole = sum_of_sixties(text.substr(0, last));
  const auto part = read_double(text.substr(last + 1));
  if (!whole || !part) return std::nullopt;
  return static_cast<double>(*whole) * 60 + *part;
}

Value float_value(const SourcePtr& source, Span span, std::string_view text) {
  if (is_infinite(text)) refuse_no_number(source, span);
  const auto size = sixties_double(without_bars(unsigned_part(text)));
  if (!size) refuse_large_number(source, span);
  return {.kind = Kind::kReal, .span = span, .real = text.starts_with('-') ? -*size : *size};
}

bool is_word_for_true(std::string_view text) {
  const char first = text[0];
  return first == 'y' || first == 'Y' || first == 't' || first == 'T' || text == "on" || text == "On" || text == "ON";
}

bool is_float(std::string_view text) { return is_decimal_float(text) || is_sixties_float(text) || is_infinite(text); }

// Whether a text may carry the explicit tag: !!float 1e8 and !!float 3 are fine.
bool fits(YamlTag tag, std::string_view text) {
  switch (tag) {
    case YamlTag::kNull: return is_null(text);
    case YamlTag::kBool: return is_bool(text);
    case YamlTag::kInt: return is_int(text);
    case YamlTag::kFloat: {
      const std::string_view digits = unsigned_part(text);
      const bool plain = !digits.empty() && digits.find_first_not_of(kDigits) == std::string_view::npos;
      return is_float(text) || is_exponent_string(text) || plain;
    }
    case YamlTag::kString: return true;
  }
  return false;
}

}  // namespace

YamlTag resolve_plain(std::string_view text) {
  if (is_null(text)) return YamlTag::kNull;
  if (is_bool(text)) return YamlTag::kBool;
  if (is_float(text)) return YamlTag::kFloat;
  if (is_int(text)) return YamlTag::kInt;
  return YamlTag::kString;
}

bool is_exponent_string(std::string_view text) {
  if (is_float(text)) return false;
  Eater eat(text);
  eat.one_of("-+");
  const size_t whole = eat.run_of(kDigits);
  const size_t fraction = eat.one_of(".") ? eat.run_of(kDigits) : 0;
  return whole + fraction > 0 && eat.exponent(true) && eat.done();
}

Value construct_scalar(YamlTag tag, const SourcePtr& source, Span span, std::string_view text) {
  if (!fits(tag, text)) {
    const std::string said = cited(*source, span, text);
    throw ReadError(
        "syntax/yaml", source, span,
        {cat("'", said, "' is not of the type that its tag says"), cat("'", said, "' 与其标签声明的类型不符")},
        {"remove the tag, or write such a value", "请去掉标签，或改成相应类型的值"});
  }
  switch (tag) {
    case YamlTag::kNull: return {.kind = Kind::kNull, .span = span};
    case YamlTag::kBool: return {.kind = Kind::kBool, .span = span, .boolean = is_word_for_true(text)};
    case YamlTag::kInt: return int_value(source, span, text);
    case YamlTag::kFloat: return float_value(source, span, text);
    case YamlTag::kString: break;
  }
  return {.kind = Kind::kString, .span = span, .text = std::string(text)};
}

}  // namespace weft::config
