#include "weft/launcher/restarts.h"

#include <gtest/gtest.h>

namespace weft::launcher {
namespace {

TEST(Pauses, DoubleWhileNothingGetsGoing) {
  Pauses pauses;
  for (const int expected : {1, 2, 4, 8, 16, 32, 64, 64, 64}) EXPECT_EQ(pauses.after(0.5), expected);
}

TEST(Pauses, BeginAnewAfterAnAttemptThatLasted) {
  Pauses pauses;
  for (int i = 0; i < 4; ++i) pauses.after(0.1);
  EXPECT_EQ(pauses.after(15), 16) << "shorter than the wait";
  EXPECT_EQ(pauses.after(3600), 1);
  EXPECT_EQ(pauses.after(0.1), 2);
}

TEST(Pauses, ARunThatFailsEveryFewSecondsWaitsOne) {
  Pauses pauses;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pauses.after(2.5), 1);
}

}  // namespace
}  // namespace weft::launcher
