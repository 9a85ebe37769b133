#include <algorithm>
#include <map>
#include <string_view>

#include "weft/monitor/run_summary.h"

namespace weft::detail {
namespace {

struct Interval {
  double start = 0, end = 0;
};

// What the intervals cover, overlaps counted once.
double covered(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::start);
  double total = 0, until = -1e300;
  for (const Interval& it : intervals) {
    total += std::max(0.0, it.end - std::max(it.start, until));
    until = std::max(until, it.end);
  }
  return total;
}

bool is_compute(std::string_view category) {
  return category == "forward" || category == "backward" || category == "optimizer";
}
bool is_communication(std::string_view category) { return category == "reduce" || category == "gather"; }

struct RankSpans {
  std::vector<Interval> compute, comm, waits;
};

RankSpans inside(const std::vector<const TimelineSpan*>& spans, const TimelineStep& step) {
  RankSpans out;
  for (const TimelineSpan* span : spans) {
    const Interval it{std::max(span->start_ns, step.start_ns), std::min(span->end_ns, step.end_ns)};
    if (it.end <= it.start) continue;
    if (is_compute(span->category)) out.compute.push_back(it);
    if (is_communication(span->category)) out.comm.push_back(it);
    if (span->category == "exposed_wait") out.waits.push_back(it);
  }
  return out;
}

// Computing is what forward, backward and the optimizer cover less the waits inside them.
void add(Overlap& sum, const RankSpans& spans) {
  auto either = spans.compute;
  either.insert(either.end(), spans.waits.begin(), spans.waits.end());
  const double waits = covered(spans.waits);
  sum.compute_ms += (covered(std::move(either)) - waits) * 1e-6;
  sum.comm_ms += covered(spans.comm) * 1e-6;
  sum.exposed_ms += waits * 1e-6;
}

}  // namespace

std::optional<Overlap> overlap_of(const RunFiles& run) {
  if (!run.timeline || run.timeline->steps.empty()) return std::nullopt;
  std::map<int64_t, std::vector<const TimelineSpan*>> by_rank;
  for (const TimelineSpan& span : run.timeline->spans) by_rank[run.timeline->rows[span.row].rank].push_back(&span);
  Overlap sum;
  double count = 0;
  // Thousands of steps of a few spans each would be read a thousand times over; a few tell as much.
  const size_t num_steps = std::min<size_t>(run.timeline->steps.size(), 16);
  for (size_t i = 0; i < num_steps; ++i) {
    for (const auto& [rank, spans] : by_rank) {
      add(sum, inside(spans, run.timeline->steps[i]));
      ++count;
    }
  }
  if (count == 0 || sum.compute_ms <= 0) return std::nullopt;
  return Overlap{sum.compute_ms / count, sum.comm_ms / count, sum.exposed_ms / count};
}

}  // namespace weft::detail
