#include "weft/base/clock.h"

#include <algorithm>
#include <climits>
#include <ctime>

namespace weft {
namespace {

std::string utc(std::chrono::system_clock::time_point when, const char* format) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(when));
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  return std::string(text, std::strftime(text, sizeof text, format, &parts));
}

}  // namespace

int64_t now_ns() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count();
}

Deadline Deadline::after(std::chrono::nanoseconds duration) {
  const int64_t now = now_ns();
  if (duration.count() >= INT64_MAX - now) return never();
  return Deadline(now + std::max<int64_t>(duration.count(), 0));
}

Deadline Deadline::after(double seconds) {
  // 9e9 s is 285 years and still fits in nanoseconds; a NaN fails both tests and lands on never().
  if (seconds <= 0) return after(std::chrono::nanoseconds(0));
  if (!(seconds < 9e9)) return never();
  return after(std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)));
}

std::chrono::nanoseconds Deadline::remaining() const {
  if (is_never()) return std::chrono::nanoseconds::max();
  return std::chrono::nanoseconds(std::max<int64_t>(at_ns_ - now_ns(), 0));
}

int Deadline::poll_ms() const {
  if (is_never()) return -1;
  const int64_t left_ns = remaining().count();
  const int64_t left_ms = left_ns / 1'000'000 + (left_ns % 1'000'000 != 0 ? 1 : 0);
  return static_cast<int>(std::min<int64_t>(left_ms, INT_MAX));
}

std::chrono::steady_clock::time_point Deadline::time_point() const {
  return std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::nanoseconds(at_ns_)));
}

std::string file_stamp(std::chrono::system_clock::time_point when) { return utc(when, "%Y%m%d-%H%M%S"); }

std::string iso_stamp(std::chrono::system_clock::time_point when) { return utc(when, "%Y-%m-%dT%H:%M:%SZ"); }

}  // namespace weft
