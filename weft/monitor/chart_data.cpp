#include "weft/monitor/chart_data.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/base/quantile.h"
#include "weft/base/text.h"
#include "weft/monitor/numbers.h"

namespace weft {
namespace {

constexpr double kGapValue = std::numeric_limits<double>::quiet_NaN();

// 1, 2 or 5 times a power of ten, the smallest that is at least `wanted`.
double nice_distance(double wanted) {
  const double power = std::pow(10.0, std::floor(std::log10(wanted)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= wanted * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// How many decimals tell neighbouring ticks apart.
int decimals_for(double distance) {
  return std::clamp(static_cast<int>(std::ceil(-std::log10(distance) - 1e-9)), 0, 6);
}

std::string tick_text(double value, double distance) {
  const int decimals = decimals_for(distance);
  const bool grouped = decimals == 0 && std::fabs(value) >= 1000;
  return grouped ? grouped_text(static_cast<int64_t>(std::llround(value))) : fixed_text(value, decimals);
}

// The mean of the drawable values within `radius` on either side, by prefix sums.
std::vector<ChartPoint> box_mean(std::span<const ChartPoint> points, size_t radius) {
  std::vector<double> sums(points.size() + 1), counts(points.size() + 1);
  for (size_t i = 0; i < points.size(); ++i) {
    const bool good = is_drawable(points[i].y);
    sums[i + 1] = sums[i] + (good ? points[i].y : 0);
    counts[i + 1] = counts[i] + (good ? 1 : 0);
  }
  std::vector<ChartPoint> out(points.begin(), points.end());
  for (size_t i = 0; i < points.size(); ++i) {
    if (!is_drawable(points[i].y)) continue;
    const size_t reach = std::min(radius, i);  // symmetric at the start, so that the first descent is not flattened
    const size_t first = i - reach, end = std::min(points.size(), i + reach + 1);
    out[i].y = (sums[end] - sums[first]) / (counts[end] - counts[first]);
  }
  return out;
}

// The median of the drawable values within two points on either side: a lone spike is gone, a slope stays as it is.
std::vector<ChartPoint> without_lone_spikes(std::span<const ChartPoint> points) {
  std::vector<ChartPoint> out(points.begin(), points.end());
  std::vector<double> near;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!is_drawable(points[i].y)) continue;
    const size_t reach = std::min({size_t{2}, i, points.size() - 1 - i});
    near.clear();
    for (size_t j = i - reach; j <= i + reach; ++j) {
      if (is_drawable(points[j].y)) near.push_back(points[j].y);
    }
    std::ranges::sort(near);
    out[i].y = nearest_rank(near, 0.5);
  }
  return out;
}

// The extremes of one column of the screen.
struct ScreenColumn {
  std::span<const ChartPoint> points;
  size_t first = 0, low = 0, high = 0, last = 0;
  bool any = false;

  explicit ScreenColumn(std::span<const ChartPoint> all) : points(all) {}
  void add(size_t i) {
    if (!is_drawable(points[i].y)) return;
    if (!any) first = low = high = i;
    any = true;
    last = i;
    if (points[i].y < points[low].y) low = i;
    if (points[i].y > points[high].y) high = i;
  }
  void flush_into(std::vector<ChartPoint>& out, double x) const {
    if (!any) {
      out.push_back({x, kGapValue});
      return;
    }
    size_t kept[] = {first, std::min(low, high), std::max(low, high), last};
    const auto end = std::unique(std::begin(kept), std::end(kept));
    for (auto it = std::begin(kept); it != end; ++it) out.push_back(points[*it]);
  }
};

}  // namespace

bool is_drawable(double value) { return std::fabs(value) < 1e300; }

void RangeFinder::add(double value) {
  if (!is_drawable(value)) return;
  range_.low = empty_ ? value : std::min(range_.low, value);
  range_.high = empty_ ? value : std::max(range_.high, value);
  empty_ = false;
}

ChartRange RangeFinder::range() const {
  if (empty_) return {0, 1};
  // A width below the spacing of doubles would divide by zero later.
  const double smallest = std::max(1e-12, 1e-9 * std::max(std::fabs(range_.low), std::fabs(range_.high)));
  if (range_.span() > smallest) return range_;
  const double half = range_.low == 0 ? 0.5 : std::max(1e-12, std::fabs(range_.low) * 0.1);
  return {range_.low - half, range_.high + half};
}

ChartRange padded(ChartRange range, double share) {
  const double more = range.span() * share;
  return {range.low - more, range.high + more};
}

std::vector<double> nice_ticks(ChartRange range, int wanted, bool whole_numbers) {
  double distance = nice_distance(range.span() / std::max(1, wanted));
  if (whole_numbers) distance = std::max(1.0, distance);
  std::vector<double> ticks;
  const double first = std::ceil(range.low / distance - 1e-9), last = std::floor(range.high / distance + 1e-9);
  // The bound holds the loop where doubles are too coarse to step by one.
  for (int i = 0; i < 100 && first + i <= last; ++i) ticks.push_back(first + i == 0 ? 0 : (first + i) * distance);
  return ticks;
}

std::vector<double> nice_log_ticks(ChartRange range, int wanted) {
  const double first = std::floor(std::log10(range.low)), last = std::ceil(std::log10(range.high));
  std::vector<double> ticks;
  const bool decades = last - first > wanted;  // too many powers of ten for anything in between
  const double stride = std::max(1.0, std::ceil((last - first) / std::max(1, wanted)));
  for (int i = 0; first + i * (decades ? stride : 1) <= last; ++i) {
    const double power = first + i * (decades ? stride : 1);
    for (const double factor : {1.0, 2.0, 3.0, 5.0, 7.0}) {
      const double tick = factor * std::pow(10.0, power);
      if (range.contains(tick) && (factor == 1 || !decades)) ticks.push_back(tick);
    }
  }
  return ticks.size() >= 3 ? ticks : nice_ticks(range, wanted);
}

std::vector<std::string> tick_labels(std::span<const double> ticks) {
  std::vector<std::string> labels;
  const double distance = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
  double largest = 0;
  for (const double tick : ticks) largest = std::max(largest, std::fabs(tick));
  constexpr const char* kUnits[] = {"", "K", "M", "B", "T"};  // as format_count
  size_t unit = 0;
  double scale = 1;
  while (largest / scale >= 10000 && unit + 1 < std::size(kUnits)) {
    scale *= 1000;
    ++unit;
  }
  const bool tiny = distance < 1e-5 || largest / scale >= 1e6;
  for (const double tick : ticks) {
    if (tick == 0)
      labels.emplace_back("0");
    else if (tiny)
      labels.push_back(significant_text(tick, 6));
    else
      labels.push_back(cat(tick_text(tick / scale, distance / scale), kUnits[unit]));
  }
  return labels;
}

std::vector<ChartPoint> smoothed(std::span<const ChartPoint> points) {
  // Two box means make a triangle: no steps where a spike enters or leaves the window.
  const size_t radius = std::clamp<size_t>(points.size() / 100, points.size() > 20 ? 2 : 0, 500);
  if (radius == 0) return {points.begin(), points.end()};
  return box_mean(box_mean(without_lone_spikes(points), radius), radius);
}

std::vector<ChartPoint> thinned(std::span<const ChartPoint> points, int columns) {
  if (points.size() <= kMaxDrawnPoints) return {points.begin(), points.end()};
  const double low = points.front().x, width = std::max(points.back().x - low, 1e-300);
  std::vector<ChartPoint> out;
  for (size_t i = 0; i < points.size();) {
    const auto column_of = [&](size_t at) { return std::floor((points[at].x - low) / width * columns); };
    const double here = column_of(i);
    ScreenColumn column(points);
    const double x = points[i].x;
    for (; i < points.size() && column_of(i) == here; ++i) column.add(i);
    column.flush_into(out, x);
  }
  return out;
}

}  // namespace weft
