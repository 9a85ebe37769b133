// What a run writes into its folder while it goes on (docs/formats/run_folder.md): metrics.csv and metrics.jsonl, ranks.json, the lines of
// steps_per_print and wall_clock_breakdown (all of rank 0), log.txt, and with a trace the timeline of every rank; and the sinks of its config.
//
//   Telemetry telemetry(env, {.folder = run_folder, .rank = rank, .trace = true});
//   const StepTimes mine = telemetry.collect(step);             // after each step
//   telemetry.step_done({.step = step, .loss = loss}, numbers_of_all_ranks);
//   telemetry.close();
//   group.barrier();                                            // all ranks have closed theirs
//   if (rank == 0) telemetry.join_traces();
//
// Switches spans on for the process. Threads: one owner. Failure: the constructor throws IoError; later nothing does but
// join_traces().
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/config/resolved.h"
#include "weft/monitor/metrics_file.h"
#include "weft/monitor/rank_board.h"
#include "weft/monitor/sinks.h"
#include "weft/monitor/slow_rank.h"
#include "weft/monitor/step_times.h"
#include "weft/monitor/timeline.h"
#include "weft/monitor/trace_writer.h"

namespace weft {

struct TelemetryOptions {
  std::string folder = {};  // of the run
  int rank = 0;
  std::vector<std::string> hosts = {};  // by rank
  std::string run_id = {};
  bool trace = false;
  int64_t trace_from = 1, trace_to = INT64_MAX;  // steps
  int64_t next_step = 1;                         // the first one that will be done
  std::optional<int64_t> steps_per_print = {};
  bool breakdown = false;
  config::Resolved config = {};  // which sinks
};

class Telemetry {
 public:
  Telemetry(Env& env, TelemetryOptions options);
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  // Takes what was recorded since the last call; the times of this step, empty where it has none.
  StepTimes collect(int64_t step);
  // Adds the times that collect() found, and what the ranks have told of theirs.
  void step_done(StepMetrics metrics, std::span<const RankNumbers> ranks);
  void set_bucket_names(std::vector<std::string> names) { slow_.set_bucket_names(std::move(names)); }
  void close();
  // For the trace; by the clock of this rank's host. A poor one is warned of, once.
  void add_clock(const ClockReading& reading);
  // The timelines of all ranks as one: its path; nothing where some rank's is not in this folder. Requires: closed on every rank.
  std::optional<std::string> join_traces();

  StepSummary summary() const { return history_.summary(); }
  const LateSteps& late_steps() const { return late_; }
  const std::vector<SlowRank>& slow_ranks() const { return slow_.now(); }

 private:
  bool is_traced(int64_t step) const { return trace_ && step >= o_.trace_from && step <= o_.trace_to; }
  void print(const StepMetrics& metrics) const;
  void compare(int64_t step, std::span<const RankNumbers> ranks);

  Env& env_;
  const TelemetryOptions o_;
  std::unique_ptr<MetricsFile> csv_, lines_;  // of rank 0
  std::unique_ptr<RankBoard> board_;          // of rank 0
  std::unique_ptr<MonitorSinks> sinks_;       // of rank 0
  std::unique_ptr<TraceWriter> trace_;
  SpanBatch batch_;
  StepCollector collector_;
  StepHistory history_;
  Breakdown breakdown_;
  LateSteps late_;
  SlowRanks slow_;
  StepTimes times_;  // of the step that collect() was asked for
  bool told_of_clock_ = false;
};

}  // namespace weft
