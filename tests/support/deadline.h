// Time in tests: how long a test may take, and waits that end. Everything in tests/support that can wait takes a
// Deadline, so that a hang ends with stacks and a name and never with a silent machine.
//
// Threads: values like any other. Failure: a malformed WEFT_TEST_DEADLINE_S throws std::invalid_argument.
#pragma once

#include <chrono>
#include <sstream>
#include <stdexcept>
#include <string>

namespace weft::test {

// GCC defines a macro for each sanitizer, clang answers a question.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_TEST_UNDER_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define WEFT_TEST_UNDER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define WEFT_TEST_UNDER_TSAN 1
#endif
#if defined(__SANITIZE_ADDRESS__)
#define WEFT_TEST_UNDER_ASAN 1
#endif

#if defined(WEFT_TEST_UNDER_TSAN)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#if defined(WEFT_TEST_UNDER_ASAN)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

// Instrumented code runs several times slower. Less would report hangs that are none; more makes real ones costly.
inline constexpr int kSlowdown = kThreadSanitizer || kAddressSanitizer ? 3 : 1;

// The exit code of a process that was ended because it hung, as timeout(1) has it.
inline constexpr int kHungExitCode = 124;

using Seconds = std::chrono::duration<double>;

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(Seconds from_now) : at_(Clock::now() + std::chrono::duration_cast<Clock::duration>(from_now)) {}

  Clock::time_point at() const { return at_; }
  bool passed() const { return Clock::now() >= at_; }
  // Milliseconds left for poll(2): rounded up, so that a wait never ends just before the deadline; 0 once passed.
  int left_ms() const;

 private:
  Clock::time_point at_;
};

// A wait ended at its own deadline. The text names what was waited for, and by whom.
class TimedOut : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// How long one test may take: WEFT_TEST_DEADLINE_S (60 when unset) times kSlowdown.
Seconds test_deadline();

// How long a group of ranks may take: what the test asked for times kSlowdown, or, when it asked for nothing (0), four
// fifths of the test's deadline, so that the ranks are named before the watchdog ends the whole process.
Seconds ranks_deadline(Seconds asked);

// Joins anything that prints. (The harness stands below weft/base and cannot use its text tools.)
template <typename... Pieces>
std::string concat(const Pieces&... pieces) {
  std::ostringstream out;
  (out << ... << pieces);
  return out.str();
}

}  // namespace weft::test
