#include <algorithm>
#include <map>
#include <string_view>

#include "weft/monitor/run_summary.h"

namespace weft::detail {
namespace {

struct TimeSpan {
  double start = 0, end = 0;
};

// What the intervals cover, overlaps counted once.
double covered(std::vector<TimeSpan> intervals) {
  std::ranges::sort(intervals, {}, &TimeSpan::start);
  double total = 0, until = -1e300;
  for (const TimeSpan& it : intervals) {
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
  std::vector<TimeSpan> compute, comm, waits;
};

RankSpans inside(const std::vector<const TimelineSpan*>& spans, const TimelineStep& step) {
  RankSpans out;
  for (const TimelineSpan* span : spans) {
    const TimeSpan it{std::max(span->start_ns, step.start_ns), std::min(span->end_ns, step.end_ns)};
    if (it.end <= it.start) continue;
    if (is_compute(span->category)) out.compute.push_back(it);
    if (is_communication(span->category)) out.comm.push_back(it);
    if (span->category == "exposed_wait") out.waits.push_back(it);
  }
  return out;
}

double covered_by_either(std::vector<TimeSpan> a, const std::vector<TimeSpan>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return covered(std::move(a));
}

// Computing is what forward, backward and the optimizer cover less the waits inside them. A wait is exposed communication only while
// something is on its way: ranks also wait for one that is late, and for each other's loss.
void add(Overlap& sum, const RankSpans& spans) {
  const double waits = covered(spans.waits), comm = covered(spans.comm);
  const double exposed = waits + comm - covered_by_either(spans.waits, spans.comm);
  sum.compute_ms += (covered_by_either(spans.compute, spans.waits) - waits) * 1e-6;
  sum.comm_ms += comm * 1e-6;
  sum.exposed_ms += exposed * 1e-6;
  sum.wait_for_ranks_ms += (waits - exposed) * 1e-6;
}

void divide(Overlap& sum, double count) {
  for (double* const part : {&sum.compute_ms, &sum.comm_ms, &sum.exposed_ms, &sum.wait_for_ranks_ms}) *part /= count;
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
  divide(sum, count);
  return sum;
}

}  // namespace weft::detail
