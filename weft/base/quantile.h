// Quantiles by nearest rank: always one of the values that were measured, never a mean of two. The one definition for
// step times, lateness and charts, so that two tables about the same run cannot disagree.
//
// Free functions, any thread, no failure but a broken claim about ourselves (WEFT_CHECK).
#pragma once

#include <span>
#include <vector>

namespace weft {

// The value that `fraction` of the sorted values do not exceed: 0 gives the smallest, 0.5 the median (of an even number
// the lower middle), 1 the largest, and beyond
// them the same. Requires: not empty, sorted, no NaN.
double nearest_rank(std::span<const double> sorted, double fraction);

struct Spread {
  double median = 0;
  double min = 0;
  double p90 = 0;
};

// All 0 when there are no values.
Spread spread_of(std::vector<double> values);

}  // namespace weft
