#include "weft/base/clock.h"

#include <gtest/gtest.h>

#include <climits>
#include <cmath>

namespace weft {
namespace {

using namespace std::chrono_literals;

TEST(Clock, NeverGoesBack) {
  int64_t last = now_ns();
  for (int i = 0; i < 1000; ++i) {
    const int64_t now = now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Clock, StopwatchCountsFromItsLastRestart) {
  const int64_t before = now_ns();
  Stopwatch watch;
  while (watch.elapsed_ns() == 0) {
  }
  const int64_t first = watch.elapsed_ns();
  const int64_t between = now_ns();
  EXPECT_LE(first, between - before);
  EXPECT_GT(watch.elapsed_s(), 0);
  watch.restart();
  const int64_t second = watch.elapsed_ns();
  const int64_t after = now_ns();
  EXPECT_LE(second, after - between);
}

TEST(Deadline, NeverIsNever) {
  const auto never = Deadline::never();
  EXPECT_TRUE(never.is_never());
  EXPECT_FALSE(never.expired());
  EXPECT_EQ(never.remaining(), std::chrono::nanoseconds::max());
  EXPECT_EQ(never.poll_ms(), -1);
}

TEST(Deadline, CountsDown) {
  const auto hour = Deadline::after(1h);
  EXPECT_FALSE(hour.expired());
  EXPECT_LE(hour.remaining(), 1h);
  EXPECT_GT(hour.remaining(), 59min);
  EXPECT_GT(hour.time_point(), std::chrono::steady_clock::now());
}

TEST(Deadline, PastMeansExpired) {
  for (const auto& past : {Deadline::after(0), Deadline::after(-5.0), Deadline::after(-1h)}) {
    EXPECT_TRUE(past.expired());
    EXPECT_EQ(past.remaining(), 0ns);
    EXPECT_EQ(past.poll_ms(), 0);
  }
}

TEST(Deadline, TooLongToCountIsNever) {
  EXPECT_TRUE(Deadline::after(std::chrono::nanoseconds::max()).is_never());
  EXPECT_TRUE(Deadline::after(1e300).is_never());
  EXPECT_TRUE(Deadline::after(INFINITY).is_never());
  EXPECT_TRUE(Deadline::after(std::nan("")).is_never());
}

TEST(Deadline, PollRoundsUpAndSaturates) {
  EXPECT_EQ(Deadline::after(1'000'000h).poll_ms(), INT_MAX);
  // A tenth of a millisecond left must not turn into a wait of zero.
  for (int i = 0; i < 100; ++i) {
    const auto soon = Deadline::after(100us);
    const int ms = soon.poll_ms();
    EXPECT_TRUE(ms == 1 || soon.expired());
  }
}

TEST(Stamp, IsUtc) {
  const auto when = std::chrono::system_clock::from_time_t(1'794'707'100) + 900ms;
  EXPECT_EQ(file_stamp(when), "20261115-014500");
  EXPECT_EQ(iso_stamp(when), "2026-11-15T01:45:00Z");
  EXPECT_EQ(iso_stamp(std::chrono::system_clock::from_time_t(0)), "1970-01-01T00:00:00Z");
}

}  // namespace
}  // namespace weft
