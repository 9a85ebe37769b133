#include <algorithm>

#include "weft/monitor/trace_lanes_impl.h"

namespace weft::detail {

bool TraceLanes::add_to(Lane& lane, Interval span) {
  // The outermost spans that end after ours starts: ours must contain all of them, or come before them.
  const auto first = std::ranges::partition_point(lane, [&](const Interval& i) { return i.end_ns <= span.start_ns; });
  auto last = first;
  for (; last != lane.end() && last->start_ns < span.end_ns; ++last) {
    if (last->start_ns < span.start_ns || last->end_ns > span.end_ns) return false;
  }
  lane.insert(lane.erase(first, last), span);
  if (lane.size() > kMaxKept) lane.pop_front();
  return true;
}

int TraceLanes::place(int64_t start_ns, int64_t end_ns) {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (add_to(lanes_[i], {start_ns, end_ns})) return static_cast<int>(i);
  }
  if (lanes_.size() == kMaxLanes) return kMaxLanes - 1;
  lanes_.push_back({{start_ns, end_ns}});
  return static_cast<int>(lanes_.size()) - 1;
}

}  // namespace weft::detail
