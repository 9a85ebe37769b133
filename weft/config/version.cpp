#include "weft/config/version.h"

#include <charconv>
#include <optional>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::config {
namespace {

// The digits up to the next dot, which goes with them; nothing when they are no small number.
std::optional<int> take_number(std::string_view& rest) {
  const std::string_view digits = rest.substr(0, rest.find('.'));
  rest.remove_prefix(std::min(rest.size(), digits.size() + 1));
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = error == std::errc() && end == digits.data() + digits.size() && digits[0] != '-';
  return whole && number < Version::kLastPatch ? std::optional(number) : std::nullopt;
}

std::optional<Version> read_version(std::string_view text) {
  if (text.starts_with("deepspeed-")) text.remove_prefix(10);
  if (text.empty() || text.ends_with('.')) return std::nullopt;
  const auto major = take_number(text);
  const auto minor = take_number(text);
  const auto patch = text.empty() ? Version::kLastPatch : take_number(text);
  if (!major || !minor || !patch || !text.empty()) return std::nullopt;
  return Version{*major, *minor, *patch};
}

}  // namespace

Version parse_version(std::string_view text) {
  const std::string known = cat(format_version(kOldestDeepSpeed), " to ", format_version(kNewestDeepSpeed));
  auto version = read_version(text);
  if (!version) {
    throw Error(ErrorKind::kInput, {.title = cat("'", text, "' is not a version of DeepSpeed"),
                                    .what = "a version looks like 0.18.4, 0.18 or deepspeed-0.18",
                                    .where = "",
                                    .fix = cat("give a version from ", known)});
  }
  const bool newest_series = version->major == kNewestDeepSpeed.major && version->minor == kNewestDeepSpeed.minor;
  if (newest_series && version->patch == Version::kLastPatch) version = kNewestDeepSpeed;
  if (*version < kOldestDeepSpeed || *version > kNewestDeepSpeed) {
    throw Error(ErrorKind::kInput, {.title = cat("DeepSpeed ", format_version(*version), " is not known here"),
                                    .what = cat("known are ", known),
                                    .where = "",
                                    .fix = "give the nearest version that is known"});
  }
  return *version;
}

std::string format_version(Version version) {
  const std::string series = cat(version.major, ".", version.minor);
  return version.patch == Version::kLastPatch ? series : cat(series, ".", version.patch);
}

}  // namespace weft::config
