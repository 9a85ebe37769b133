#include "weft/config/coerce.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "weft/config/hjson.h"
#include "weft/config/lower.h"

namespace weft::config {
namespace {

Value with_span(Value value, Span span) {
  value.span = span;
  return value;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::optional<bool> bool_of_text(std::string_view text) {
  const std::string word = lower(text);
  for (const char* yes : {"true", "1", "yes", "on", "t", "y"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"false", "0", "no", "off", "f", "n"}) {
    if (word == no) return false;
  }
  return std::nullopt;
}

std::optional<Value> to_bool(const Value& value) {
  if (value.kind == Kind::kBool) return value;
  if (value.is_number() && (value.number() == 0 || value.number() == 1)) return bool_value(value.number() == 1);
  if (value.kind != Kind::kString) return std::nullopt;
  const auto found = bool_of_text(value.text);
  return found ? std::optional(bool_value(*found)) : std::nullopt;
}

// Digits with an optional sign, single underscores between them, and an optional ".000": what pydantic takes from a string.
std::optional<int64_t> int_of_text(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  if (const size_t dot = text.find('.'); dot != std::string_view::npos && dot > 0) {
    if (text.find_first_not_of('0', dot + 1) != std::string_view::npos) return std::nullopt;
    text = text.substr(0, dot);
  }
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && text[i - 1] != '_' && text[i - 1] != '-';
    if (text[i] == '_' && !between) return std::nullopt;
    if (text[i] != '_') digits += text[i];
  }
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size() || digits.empty()) return std::nullopt;
  return number;
}

std::optional<Value> to_int(const Value& value) {
  if (value.kind == Kind::kInt) return value;
  if (value.kind == Kind::kBool) return int_value(value.boolean ? 1 : 0);
  if (value.kind == Kind::kReal) {
    const bool fits = std::trunc(value.real) == value.real && std::abs(value.real) < 9223372036854775808.0;
    return fits ? std::optional(int_value(static_cast<int64_t>(value.real))) : std::nullopt;
  }
  if (value.kind != Kind::kString) return std::nullopt;
  const auto found = int_of_text(value.text);
  return found ? std::optional(int_value(*found)) : std::nullopt;
}

std::optional<Value> to_real(const Value& value) {
  if (value.is_number()) return real_value(value.number());
  if (value.kind == Kind::kBool) return real_value(value.boolean ? 1 : 0);
  if (value.kind != Kind::kString) return std::nullopt;
  const auto found = float_of_text(value.text);
  return found ? std::optional(real_value(*found)) : std::nullopt;
}

std::optional<Value> to_one_of(const Setting& setting, const Value& value) {
  if (value.kind != Kind::kString) return std::nullopt;
  for (const std::string_view one : setting.values) {
    if (setting.any_case ? lower(value.text) == lower(one) : value.text == one) return text_value(one);
  }
  if (!setting.spellings) return std::nullopt;
  constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
      {"torch.float16", "fp16"}, {"float16", "fp16"}, {"half", "fp16"},     {"torch.float32", "fp32"},
      {"float32", "fp32"},       {"float", "fp32"},   {"bfloat16", "bf16"}, {"torch.bfloat16", "bf16"},
  };
  for (const auto& [spelling, canonical] : kSpellings) {
    if (value.text == spelling) return text_value(canonical);
  }
  return std::nullopt;
}

// A single text is a list of one, and a repeated one counts once, where DeepSpeed has a model for it.
std::optional<Value> to_strings(const Setting& setting, const Value& value) {
  Value list;
  list.kind = Kind::kArray;
  if (value.kind == Kind::kString && setting.section->strict) list.items.push_back(value);
  if (!list.items.empty()) return list;
  if (value.kind != Kind::kArray) return std::nullopt;
  for (const Value& item : value.items) {
    if (item.kind != Kind::kString) return std::nullopt;
    const auto same = [&](const Value& earlier) { return earlier.text == item.text; };
    const bool repeated = std::any_of(list.items.begin(), list.items.end(), same);
    if (!repeated || !setting.section->strict) list.items.push_back(item);
  }
  return list;
}

std::optional<Value> only(Kind kind, const Value& value) {
  return value.kind == kind ? std::optional(value) : std::nullopt;
}

std::optional<Value> convert(const Setting& setting, const Value& value) {
  switch (setting.type) {
    case Type::kBool: return to_bool(value);
    case Type::kInt: return to_int(value);
    case Type::kFloat: return to_real(value);
    case Type::kString:
    case Type::kPath: return only(Kind::kString, value);
    case Type::kEnum:
    case Type::kDtype: return to_one_of(setting, value);
    case Type::kStrings: return to_strings(setting, value);
    case Type::kObject: return only(Kind::kObject, value);
    case Type::kList: return only(Kind::kArray, value);
    case Type::kAny: return value;
    case Type::kNull: return std::nullopt;
  }
  return std::nullopt;
}

// "8" for 8, "true" for true: DeepSpeed's models convert it, its plain sections hand it on and fail on it later.
bool is_number_as_text(const Setting& setting, const Value& value) {
  const bool wants_more = setting.type == Type::kBool || setting.type == Type::kInt || setting.type == Type::kFloat;
  return wants_more && value.kind == Kind::kString && !setting.section->strict;
}

}  // namespace

std::optional<double> float_of_text(std::string_view text) {
  std::string digits;
  for (const char c : trimmed(text)) {
    if (c != '_') digits += c;
  }
  const char* begin = digits.data() + (digits.starts_with('+') ? 1 : 0);
  double number = 0;
  const auto [end, error] = std::from_chars(begin, digits.data() + digits.size(), number);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size() && !digits.empty();
  return whole && std::isfinite(number) ? std::optional(number) : std::nullopt;
}

std::optional<Value> coerce(const Setting& setting, const Value& value) {
  if (value.is_auto() && setting.has_auto()) return value;
  if (is_number_as_text(setting, value)) return std::nullopt;
  if (value.kind == Kind::kNull)
    return setting.nullable || setting.type == Type::kAny || setting.type == Type::kNull ? std::optional(value)
                                                                                         : std::nullopt;
  auto converted = convert(setting, value);
  if (converted) converted->span = value.span;
  return converted;
}

Value default_value(const Setting& setting, Version version) {
  const auto source = std::make_shared<const Source>(
      "<default>", std::string("{\"v\":") + std::string(setting.default_in(version)) + "}");
  const Value parsed = *parse_hjson(source).find("v");
  if (parsed.kind == Kind::kNull) return with_span(parsed, {});
  return with_span(convert(setting, parsed).value_or(parsed), {});
}

}  // namespace weft::config
