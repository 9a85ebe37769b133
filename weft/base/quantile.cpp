#include "weft/base/quantile.h"

#include <algorithm>
#include <cmath>

#include "weft/base/check.h"

namespace weft {

double nearest_rank(std::span<const double> sorted, double fraction) {
  WEFT_CHECK(!sorted.empty());
  const auto count = static_cast<double>(sorted.size());
  // In this order a fraction that is no number gives the smallest.
  const double rank = std::max(1.0, std::min(std::ceil(fraction * count), count));
  return sorted[static_cast<size_t>(rank) - 1];
}

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  return {.median = nearest_rank(values, 0.5), .min = values.front(), .p90 = nearest_rank(values, 0.9)};
}

}  // namespace weft
