#include "weft/engine/peak_flops.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace weft::engine {
namespace {

// A library that takes long to load would leave no time to be quick in, and what a machine reaches would be far too little.
TEST(PeakFlops, WarmUpsTakeNothingOfTheTime) {
  const RateTrial trial{.warm_ups = 2, .tries = 30, .least_tries = 1, .most_s = 0.2};
  int runs = 0;
  const double rate = best_rate(trial, 1, [&] {
    if (++runs <= trial.warm_ups) std::this_thread::sleep_for(std::chrono::milliseconds(150));
  });
  EXPECT_GT(runs, trial.warm_ups + trial.least_tries);
  EXPECT_LE(runs, trial.warm_ups + trial.tries);
  EXPECT_GT(rate, 1 / 0.15);
}

TEST(PeakFlops, SlowProductsAreTriedAFewTimesAllTheSame) {
  int runs = 0;
  best_rate({.warm_ups = 1, .tries = 30, .least_tries = 3, .most_s = 0}, 1, [&] { ++runs; });
  EXPECT_EQ(runs, 4);
}

}  // namespace
}  // namespace weft::engine
