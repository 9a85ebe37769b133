// Where the time of each step went, from the spans recorded during it.
//
//   StepCollector collector;
//   StepHistory history;
//   Breakdown breakdown(config.steps_per_print);
//   drain_spans(batch);
//   for (const StepTimes& step : collector.add(batch.events)) {
//     history.add(step);
//     for (const std::string& line : breakdown.add(step)) log_info(line);
//   }
//
// A step is a span of category kStep; its value is the step's number. What lies inside counts for it. Time covered by
// two spans of one category counts once, so that a wait inside a wait, or the same bucket marked by two rooms, is not
// taken double. Forward, backward and optimizer contain the waits inside them: exposed_comm_ms says how much that is.
//
// Threads: values with one owner each. Failure: none; hostile times (backwards, overlapping, huge) give odd numbers only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/base/quantile.h"
#include "weft/monitor/span.h"

namespace weft {

struct BucketTime {
  int32_t bucket = 0;
  double ms = 0;  // of all its reduces in this step
  int64_t bytes = 0;
  double ready_ms = 0;  // since the step's last backward began, when the last of them started
};

struct StepTimes {
  int64_t step = 0;
  double step_ms = 0;
  double forward_ms = 0, backward_ms = 0, optimizer_ms = 0, data_ms = 0;
  double other_ms = 0;         // of the step, in none of the four
  double exposed_comm_ms = 0;  // the training thread waited for communication
  double gather_ms = 0;        // some parameter was on its way
  double reduce_ms = 0;        // some bucket was on its way; behind the computation or not
  double checkpoint_ms = 0;    // the training thread stood still for a save
  // The same without the waits inside: this rank's own doing.
  double forward_busy_ms = 0, backward_busy_ms = 0, optimizer_busy_ms = 0, busy_ms = 0;
  std::vector<BucketTime> buckets = {};  // by number
};

class StepCollector {
 public:
  // The steps that ended within these events, in order. A reduce counts for the step in which it ended; one that another
  // thread recorded a moment too late for its step counts for the next.
  std::vector<StepTimes> add(std::span<const SpanEvent> events);

  // Spans forgotten because no step came to an end for kMaxPending of them.
  uint64_t num_forgotten() const { return num_forgotten_; }
  static constexpr size_t kMaxPending = 1 << 18;

 private:
  std::vector<SpanEvent> pending_;  // by end
  uint64_t num_forgotten_ = 0;
};

struct StepSummary {
  Spread step_ms, forward_ms, backward_ms, optimizer_ms, exposed_comm_ms;
};

// Five numbers a step.
class StepHistory {
 public:
  void add(const StepTimes& step);
  // Without the warm-up (run_record.h).
  StepSummary summary() const;

 private:
  std::vector<double> step_ms_, forward_ms_, backward_ms_, optimizer_ms_, exposed_comm_ms_;
};

// `wall_clock_breakdown`: a mean over the steps since the last print, each time the step's number is a multiple of
// `steps_per_print`. 0 or less prints nothing.
class Breakdown {
 public:
  explicit Breakdown(int64_t steps_per_print) : steps_per_print_(steps_per_print) {}
  // One or two lines when it is time, without line ends.
  std::vector<std::string> add(const StepTimes& step);

 private:
  int64_t steps_per_print_;
  int64_t num_steps_ = 0;
  StepTimes sum_;
};

}  // namespace weft
