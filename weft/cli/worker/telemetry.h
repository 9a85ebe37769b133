// What a run tells while it goes on: metrics.csv and metrics.jsonl, the lines of steps_per_print and wall_clock_breakdown (all of
// rank 0), and with --trace the timeline of every rank.
//
//   Telemetry telemetry(env, {.folder = run_folder, .rank = rank, .trace = true});
//   telemetry.step_done({.step = step, .loss = loss});       // after each step
//   telemetry.close();
//   group.barrier();                                         // all ranks have closed theirs
//   if (rank == 0) telemetry.join_traces(world);
//
// Switches spans on for the process. Threads: one owner. Failure: the constructor throws IoError; later nothing does but
// join_traces().
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "weft/base/env.h"
#include "weft/monitor/metrics_file.h"
#include "weft/monitor/step_times.h"
#include "weft/monitor/trace_writer.h"

namespace weft::cli {

struct TelemetryOptions {
  std::string folder;  // of the run
  int rank = 0;
  std::string host, run_id;
  bool trace = false;
  int64_t next_step = 1;  // the first one that will be done
  std::optional<int64_t> steps_per_print;
  bool breakdown = false;
};

class Telemetry {
 public:
  Telemetry(Env& env, const TelemetryOptions& options);
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  // Adds the times of the step to what is known of it.
  void step_done(StepMetrics metrics);
  void close();
  // The timelines of all ranks as one: its path. Requires: closed on every rank, all of one host.
  std::string join_traces(int num_ranks);

  StepSummary summary() const { return history_.summary(); }

 private:
  void print(const StepMetrics& metrics) const;

  Env& env_;
  const TelemetryOptions o_;
  std::unique_ptr<MetricsFile> csv_, lines_;  // of rank 0
  std::unique_ptr<TraceWriter> trace_;
  SpanBatch batch_;
  StepCollector collector_;
  StepHistory history_;
  Breakdown breakdown_;
};

}  // namespace weft::cli
