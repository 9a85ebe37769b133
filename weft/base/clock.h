// Time: a monotonic clock for measuring and for deadlines, the wall clock only for names and stamps people read.
//
// Threads: values and free functions, any thread. Failure: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace weft {

// Nanoseconds since some fixed moment; never goes back, not comparable across hosts.
int64_t now_ns();

class Stopwatch {
 public:
  Stopwatch() : started_ns_(now_ns()) {}
  void restart() { started_ns_ = now_ns(); }
  int64_t elapsed_ns() const { return now_ns() - started_ns_; }
  double elapsed_s() const { return static_cast<double>(elapsed_ns()) * 1e-9; }

 private:
  int64_t started_ns_;
};

// A moment after which waiting is pointless. Passed down unchanged, so that nested waits share one limit.
class Deadline {
 public:
  // A duration too long to count becomes never(); a negative one has already expired.
  static Deadline after(double seconds);
  static Deadline after(std::chrono::nanoseconds duration);
  static Deadline never() { return Deadline(INT64_MAX); }

  bool is_never() const { return at_ns_ == INT64_MAX; }
  bool expired() const { return !is_never() && now_ns() >= at_ns_; }
  // Zero once expired; nanoseconds::max() for never().
  std::chrono::nanoseconds remaining() const;
  // For poll(2): milliseconds rounded up (so that a wait does not spin through the last one), -1 for never().
  int poll_ms() const;
  // For condition variables. Requires: !is_never().
  std::chrono::steady_clock::time_point time_point() const;

 private:
  explicit Deadline(int64_t at_ns) : at_ns_(at_ns) {}
  int64_t at_ns_;
};

// "20261115-014500" in UTC: sorts by time, fits in a file name.
std::string file_stamp(std::chrono::system_clock::time_point when = std::chrono::system_clock::now());

// "2026-11-15T01:45:00Z" (ISO-8601, UTC).
std::string iso_stamp(std::chrono::system_clock::time_point when = std::chrono::system_clock::now());

}  // namespace weft
