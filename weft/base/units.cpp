#include "weft/base/units.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>

#include "weft/base/text.h"

namespace weft {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::string_view kCountForms =
    "write a whole number, such as 1024, 5e8, 1.5K, 25M, 7B or 2T (powers of 1000)";
constexpr std::string_view kBytesForms =
    "write bytes, such as 512, 64K, 24G, 1.5GiB (powers of 1024) or 25MB, 2TB (powers of 1000)";
constexpr std::string_view kRateForms =
    "write bits per second, such as 10gbit or 1gbps, or bytes per second, such as 500MB/s, 12GB/s or 3GiB/s";
constexpr std::string_view kDurationForms =
    "write a number with its unit, such as 250ms, 90s, 2m, 1.5h, 1h30m or 1d12h";

Error refuse(std::string_view what_it_is, std::string_view text, std::string_view why, std::string_view forms) {
  return Error(ErrorKind::kInput, {.title = cat("not ", what_it_is, ": '", text, "'"),
                                   .what = std::string(why),
                                   .where = "",
                                   .fix = std::string(forms)});
}

// digits * 10^exponent, exactly as written.
struct Decimal {
  Wide digits = 0;
  int exponent = 0;
  std::string_view text;
};

// 24 digits times the largest unit (2^40, or a day of nanoseconds) stays below 2^128.
constexpr int kMaxDigits = 24;

bool is_digit(std::string_view text, size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; }

// Reads "e8", "E-3" at `at`; an 'e' without digits is left there for the caller to refuse as a unit.
bool read_exponent(std::string_view text, size_t& at, Decimal& number) {
  if (at >= text.size() || (text[at] != 'e' && text[at] != 'E')) return true;
  const size_t sign = at + 1;
  const bool has_sign = sign < text.size() && (text[sign] == '+' || text[sign] == '-');
  const size_t first = has_sign ? sign + 1 : sign;
  if (!is_digit(text, first)) return true;
  int exponent = 0;
  for (at = first; is_digit(text, at); ++at) {
    exponent = exponent * 10 + (text[at] - '0');
    if (exponent > 9999) return false;
  }
  number.exponent += has_sign && text[sign] == '-' ? -exponent : exponent;
  return true;
}

// Takes a number off the front of `text`, and the spaces after it.
std::optional<Decimal> take_decimal(std::string_view& text) {
  Decimal number;
  size_t at = 0;
  int significant = 0, seen = 0;
  bool after_point = false;
  for (; at < text.size(); ++at) {
    if (text[at] == '.' && !after_point) {
      after_point = true;
      continue;
    }
    if (!is_digit(text, at)) break;
    number.digits = number.digits * 10 + static_cast<unsigned>(text[at] - '0');
    ++seen;
    if (number.digits != 0 && ++significant > kMaxDigits) return std::nullopt;
    if (after_point) --number.exponent;
  }
  if (seen == 0 || !read_exponent(text, at, number)) return std::nullopt;
  number.text = text.substr(0, at);
  while (at < text.size() && text[at] == ' ') ++at;
  text.remove_prefix(at);
  return number;
}

struct Scaled {
  uint64_t whole = 0;
  bool exact = true;
};

// number * unit, rounded down; nothing when it exceeds `limit`.
std::optional<Scaled> scale(const Decimal& number, uint64_t unit, uint64_t limit) {
  Wide value = number.digits * unit;
  if (value == 0) return Scaled{};
  bool exact = true;
  for (int i = 0; i < number.exponent; ++i) {
    if (value > limit) return std::nullopt;
    value *= 10;
  }
  for (int i = 0; i > number.exponent && value != 0; --i) {
    exact = exact && value % 10 == 0;
    value /= 10;
  }
  if (value > limit) return std::nullopt;
  return Scaled{static_cast<uint64_t>(value), exact};
}

struct Unit {
  std::string_view name;
  uint64_t size;
};

constexpr uint64_t kKi = 1024, kMi = kKi * kKi, kGi = kMi * kKi, kTi = kGi * kKi;
constexpr uint64_t kK = 1000, kM = kK * kK, kG = kM * kK, kT = kG * kK;

constexpr Unit kCountUnits[] = {{"", 1}, {"k", kK}, {"m", kM}, {"b", kG}, {"t", kT}};
constexpr Unit kByteUnits[] = {{"", 1},    {"b", 1},     {"k", kKi},   {"m", kMi},   {"g", kGi},
                               {"t", kTi}, {"kib", kKi}, {"mib", kMi}, {"gib", kGi}, {"tib", kTi},
                               {"kb", kK}, {"mb", kM},   {"gb", kG},   {"tb", kT}};
constexpr Unit kPrefixes[] = {{"", 1}, {"k", kK}, {"m", kM}, {"g", kG}, {"t", kT}};
constexpr Unit kBinaryPrefixes[] = {{"ki", kKi}, {"mi", kMi}, {"gi", kGi}, {"ti", kTi}};
// Largest first: parse_duration walks down, so "30m1h" and "1s1s" are refused.
constexpr Unit kTimeUnits[] = {{"d", 86'400 * kG}, {"h", 3'600 * kG}, {"m", 60 * kG}, {"s", kG},
                               {"ms", kM},         {"us", kK},        {"ns", 1}};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

const Unit* find_unit(std::span<const Unit> units, std::string_view name) {
  const std::string folded = lower(name);
  for (const Unit& unit : units) {
    if (unit.name == folded) return &unit;
  }
  return nullptr;
}

// Bytes per second that one `name` stands for; 0 when there is no such unit.
double rate_unit(std::string_view name) {
  for (const std::string_view bits : {"bit/s", "bit", "bps"}) {
    // "Gbit" and "gbps" are written both ways, but a capital B before "ps" would mean bytes to half the world.
    if (!name.ends_with(bits) && !(bits != "bps" && lower(name).ends_with(bits))) continue;
    const Unit* prefix = find_unit(kPrefixes, name.substr(0, name.size() - bits.size()));
    return prefix == nullptr ? 0 : static_cast<double>(prefix->size) / 8;
  }
  if (!name.ends_with("B/s")) return 0;
  const std::string_view letters = name.substr(0, name.size() - 3);
  const Unit* prefix = find_unit(kPrefixes, letters);
  if (prefix == nullptr) prefix = find_unit(kBinaryPrefixes, letters);
  return prefix == nullptr ? 0 : static_cast<double>(prefix->size);
}

std::string_view take_letters(std::string_view& text) {
  size_t at = 0;
  while (at < text.size() && std::isalpha(static_cast<unsigned char>(text[at])) != 0) ++at;
  const std::string_view letters = text.substr(0, at);
  while (at < text.size() && text[at] == ' ') ++at;
  text.remove_prefix(at);
  return letters;
}

std::string one_decimal(double value, std::string_view unit) {
  char digits[64];
  const int length = std::snprintf(digits, sizeof digits, "%.1f", value);
  return cat(std::string_view(digits, static_cast<size_t>(length)), unit);
}

// Prints with the largest name that keeps the number below `step` after rounding to one decimal.
std::string in_steps(double value, double step, std::span<const std::string_view> names) {
  size_t i = 0;
  while (i + 1 < names.size() && std::round(value * 10) / 10 >= step) {
    value /= step;
    ++i;
  }
  return one_decimal(value, names[i]);
}

// "1m 05s": `minor` per `major`.
std::string two_parts(int64_t minors, int64_t minor_per_major, char major, char minor) {
  const int64_t rest = minors % minor_per_major;
  return cat(minors / minor_per_major, major, rest < 10 ? " 0" : " ", rest, minor);
}

int64_t rounded(int64_t value, int64_t unit) { return value / unit + (value % unit >= (unit + 1) / 2 ? 1 : 0); }

std::string format_positive(int64_t ns) {
  constexpr int64_t kSecond = 1'000'000'000, kMinute = 60 * kSecond, kHour = 60 * kMinute;
  if (ns < 1'000) return cat(ns, " ns");
  if (rounded(ns, 1'000) < 1'000) return cat(rounded(ns, 1'000), " us");
  if (rounded(ns, 1'000'000) < 1'000) return cat(rounded(ns, 1'000'000), " ms");
  if (rounded(ns, kSecond / 10) < 600) return one_decimal(static_cast<double>(rounded(ns, kSecond / 10)) / 10, " s");
  if (rounded(ns, kSecond) < 3'600) return two_parts(rounded(ns, kSecond), 60, 'm', 's');
  if (rounded(ns, kMinute) < int64_t{24} * 60) return two_parts(rounded(ns, kMinute), 60, 'h', 'm');
  return two_parts(rounded(ns, kHour), 24, 'd', 'h');
}

}  // namespace

Result<int64_t> parse_count(std::string_view text) {
  std::string_view rest = text;
  const auto number = take_decimal(rest);
  const Unit* unit = number ? find_unit(kCountUnits, rest) : nullptr;
  if (unit == nullptr) return refuse("a count", text, "", kCountForms);
  const auto scaled = scale(*number, unit->size, INT64_MAX);
  if (!scaled) return refuse("a count", text, cat("more than ", INT64_MAX), kCountForms);
  if (!scaled->exact) return refuse("a count", text, "it is not a whole number", kCountForms);
  return static_cast<int64_t>(scaled->whole);
}

Result<uint64_t> parse_bytes(std::string_view text) {
  std::string_view rest = text;
  const auto number = take_decimal(rest);
  const Unit* unit = number ? find_unit(kByteUnits, rest) : nullptr;
  if (unit == nullptr) return refuse("a number of bytes", text, "", kBytesForms);
  const auto scaled = scale(*number, unit->size, UINT64_MAX);
  if (!scaled) return refuse("a number of bytes", text, cat("more than ", UINT64_MAX), kBytesForms);
  return scaled->whole;
}

Result<double> parse_rate(std::string_view text) {
  std::string_view rest = text;
  const auto number = take_decimal(rest);
  const double unit = number ? rate_unit(rest) : 0;
  if (unit == 0) return refuse("a rate", text, "", kRateForms);
  double value = 0;
  const auto read = std::from_chars(number->text.data(), number->text.data() + number->text.size(), value);
  if (read.ec != std::errc() || !std::isfinite(value * unit)) return refuse("a rate", text, "out of range", kRateForms);
  return value * unit;
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  std::string_view rest = text;
  std::span<const Unit> allowed = kTimeUnits;
  uint64_t total_ns = 0;
  do {
    const auto number = take_decimal(rest);
    const Unit* unit = number ? find_unit(allowed, take_letters(rest)) : nullptr;
    if (unit == nullptr) return refuse("a duration", text, "", kDurationForms);
    const auto scaled = scale(*number, unit->size, INT64_MAX - total_ns);
    if (!scaled) return refuse("a duration", text, "more than 292 years", kDurationForms);
    total_ns += scaled->whole;
    allowed = allowed.subspan(static_cast<size_t>(unit - allowed.data()) + 1);
  } while (!rest.empty());
  return std::chrono::nanoseconds(static_cast<int64_t>(total_ns));
}

std::string format_count(int64_t count) {
  if (count > -1000 && count < 1000) return cat(count);
  constexpr std::string_view kNames[] = {"", "K", "M", "B", "T"};
  const auto value = static_cast<double>(count);
  return cat(count < 0 ? "-" : "", in_steps(std::fabs(value), 1000, kNames));
}

std::string format_bytes(uint64_t bytes) {
  if (bytes < 1024) return cat(bytes, " B");
  constexpr std::string_view kNames[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  return in_steps(static_cast<double>(bytes), 1024, kNames);
}

std::string format_rate(double bytes_per_s) {
  if (!std::isfinite(bytes_per_s) || bytes_per_s < 0) return "n/a";
  constexpr std::string_view kNames[] = {" B/s", " KB/s", " MB/s", " GB/s", " TB/s"};
  return in_steps(bytes_per_s, 1000, kNames);
}

std::string format_duration(std::chrono::nanoseconds duration) {
  const int64_t ns = duration.count();
  if (ns >= 0) return format_positive(ns);
  // The most negative value has no positive twin; a nanosecond is lost there and nowhere seen.
  return cat("-", format_positive(ns == INT64_MIN ? INT64_MAX : -ns));
}

}  // namespace weft
