// A version of DeepSpeed, because the same file means different things to different ones. A plain value.
#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace weft::config {

struct Version {
  int major = 0;
  int minor = 0;
  int patch = 0;

  // `patch` of "the last of this series": later than every release of it.
  static constexpr int kLastPatch = 9999;

  auto operator<=>(const Version&) const = default;
};

// The newest that weft knows in every detail; what files mean unless --as says otherwise.
constexpr Version kNewestDeepSpeed = {0, 19, 8};
// The oldest whose differences are known.
constexpr Version kOldestDeepSpeed = {0, 9, 5};

// "deepspeed-0.18", "0.18.4", "0.18" (the last 0.18.x; the newest series ends with kNewestDeepSpeed).
// Throws Error(kInput): not a version, or outside what is known.
Version parse_version(std::string_view text);
std::string format_version(Version version);  // "0.18.4"; the last of a series: "0.18"

}  // namespace weft::config
