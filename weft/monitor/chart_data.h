// The arithmetic behind a chart: ranges, ticks, smoothing, and thinning a long series to what a screen can show.
//
// Pure functions over values, any thread, no failure. Points whose y is not drawable (NaN, infinite, beyond 1e300) are
// gaps: they never widen a range, and a line breaks there.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace weft {

struct ChartPoint {
  double x = 0;
  double y = 0;
};

struct ChartRange {
  double low = 0;
  double high = 1;

  double span() const { return high - low; }
  bool contains(double value) const { return value >= low && value <= high; }
};

// Finite, and small enough that differences stay finite.
bool is_drawable(double value);

// Grows a range to hold values one by one; what is not drawable is ignored.
class RangeFinder {
 public:
  void add(double value);
  bool empty() const { return empty_; }
  // The range found, widened where it has no width; 0 to 1 when nothing was added.
  ChartRange range() const;

 private:
  ChartRange range_;
  bool empty_ = true;
};

// `range` with a share of its width added at each end, so that lines do not touch the frame.
ChartRange padded(ChartRange range, double share);

// Multiples of 1, 2 or 5 times a power of ten inside the range, about `wanted` of them. With whole_numbers the distance
// is at least 1.
std::vector<double> nice_ticks(ChartRange range, int wanted, bool whole_numbers = false);

// The same for a logarithmic axis: 1, 2, 3, 5 and 7 times powers of ten; plain ticks where the range has too few of
// them. Requires: range.low > 0.
std::vector<double> nice_log_ticks(ChartRange range, int wanted);

// One label per tick, all with the same number of decimals: "2.0", "2.5". From 10,000 on with a letter: "10k", "12.5k".
std::vector<std::string> tick_labels(std::span<const double> ticks);

// The mean over a window of about a twenty-fifth of the points, weighted towards its middle, after a median of five
// that takes lone spikes away. The start keeps the steep first descent (the window shrinks there); gaps are skipped and
// stay gaps. Up to 20 points come back unchanged. Same length and x as the input.
std::vector<ChartPoint> smoothed(std::span<const ChartPoint> points);

// Series of at most this many points are drawn as they are.
inline constexpr size_t kMaxDrawnPoints = 2000;

// At most four points for each of `columns` equal parts of x: the first, lowest, highest and last, in order. A spike of
// one step therefore stays visible in a million. A part with nothing but gaps gives one gap. Requires: x ascending.
std::vector<ChartPoint> thinned(std::span<const ChartPoint> points, int columns);

}  // namespace weft
