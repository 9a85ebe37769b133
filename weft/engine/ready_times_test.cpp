#include "weft/engine/ready_times.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

// On a device: engine_cuda_test.cpp.
TEST(ReadyTimes, OfTheCpuAreThoseOfTheHooks) {
  ReadyTimes times(c10::kCPU, 3);
  for (const bool measured : {false, true}) {
    times.begin(measured);
    for (const int parameter : {2, 0, 2}) times.note(parameter);
    times.end();
    EXPECT_EQ(times.last_s()[1], 0) << "it never came";
    EXPECT_GE(times.last_s()[0], 0);
    EXPECT_GE(times.last_s()[2], times.last_s()[0]) << "the last time counts";
    EXPECT_GE(times.backward_s(), times.last_s()[2]);
  }
}

TEST(ReadyTimes, OfOneThatDidNotComeAreThoseBefore) {
  ReadyTimes times(c10::kCPU, 1);
  times.begin(true);
  times.note(0);
  times.end();
  const double before_s = times.last_s()[0];
  times.begin(true);
  times.end();
  EXPECT_EQ(times.last_s()[0], before_s);
}

}  // namespace
}  // namespace weft::engine
