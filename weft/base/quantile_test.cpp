#include "weft/base/quantile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "weft/base/error.h"

namespace weft {
namespace {

std::vector<double> up_to(int count) {
  std::vector<double> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

TEST(Quantile, IsAlwaysOneOfTheValues) {
  const struct {
    int count;
    double fraction, expected;
  } cases[] = {{1, 0, 1},         {1, 0.5, 1}, {1, 1, 1},    {2, 0.5, 1},    {3, 0.5, 2},
               {4, 0.5, 2},       {10, 0, 1},  {10, 0.9, 9}, {10, 0.91, 10}, {10, 1, 10},
               {100, 0.995, 100}, {5, 0.2, 1}, {5, -1, 1},   {5, 7, 5},      {5, std::nan(""), 1},
               {1000, 0.9, 900}};
  for (const auto& [count, fraction, expected] : cases)
    EXPECT_EQ(nearest_rank(up_to(count), fraction), expected) << fraction << " of " << count;
}

TEST(Quantile, OfNothingIsABug) { EXPECT_THROW(nearest_rank({}, 0.5), Error); }

TEST(Spread, SortsForItself) {
  const Spread spread = spread_of({9, 1, 8, 2, 7, 3, 6, 4, 5, 10});
  EXPECT_EQ(spread.median, 5);
  EXPECT_EQ(spread.min, 1);
  EXPECT_EQ(spread.p90, 9);
}

TEST(Spread, OfNothingIsNothing) { EXPECT_EQ(spread_of({}).p90, 0); }

}  // namespace
}  // namespace weft
