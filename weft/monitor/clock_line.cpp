#include "weft/monitor/clock_line.h"

#include <algorithm>
#include <cmath>

namespace weft {

void ClockLine::add(const ClockReading& reading) {
  if (readings_.empty() || readings_.back().at_ns < reading.at_ns) readings_.push_back(reading);
}

int64_t ClockLine::offset_at(int64_t ns) const {
  if (readings_.empty()) return 0;
  const auto after = std::ranges::upper_bound(readings_, ns, {}, &ClockReading::at_ns);
  if (after == readings_.begin()) return readings_.front().offset_ns;
  if (after == readings_.end()) return readings_.back().offset_ns;
  const ClockReading& before = *(after - 1);
  // Differences are small where the numbers themselves are not.
  const double part = static_cast<double>(ns - before.at_ns) / static_cast<double>(after->at_ns - before.at_ns);
  return before.offset_ns + std::llround(part * static_cast<double>(after->offset_ns - before.offset_ns));
}

}  // namespace weft
