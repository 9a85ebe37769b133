// Everything that a run shows of itself, for any training loop: what each step took and where, on every rank, who is slow, FLOP/s, memory;
// written into a run folder that reports, pages and other tools read (docs/monitoring.md, docs/formats/run_folder.md).
//
//   RunMonitor monitor(engine, {.folder = "runs/x"});
//   for (...) {
//     auto loss = model->forward(batch);
//     engine.backward(loss);
//     engine.step();
//     monitor.step_done({.loss = loss.item<double>(), .tokens = num_tokens});
//   }
//   monitor.close();                                        // and runs/x/report.html is there
//
// All ranks have one, and call it alike: step_done() is a collective of some 400 bytes a rank, which also brings every rank the mean loss
// and whether some rank wants to stop or to save. Threads: that of the training loop. Failure: the constructor throws IoError where the
// folder cannot be written; later a disk that is full costs rows and pictures, with one warning. PeerLost.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/engine/engine.h"
#include "weft/engine/flop_counter.h"
#include "weft/engine/pace.h"
#include "weft/monitor/machine_use.h"
#include "weft/monitor/run_record.h"
#include "weft/monitor/telemetry.h"

namespace weft {

class LiveServer;
namespace engine {
class DeviceSpans;
}

struct RunMonitorOptions {
  std::string folder = {};  // of the run, made by the caller; the same text on all ranks
  bool record = true;       // false: nothing is measured or written; ranks still share their loss
  bool report = true;       // result.json at the start and the end, then report.html; false: the caller writes them
  bool trace = false;
  int64_t trace_from = 1, trace_to = INT64_MAX;
  // FLOPs are counted in one step of so many, once the run is warm; 0: never.
  int64_t count_flops_every = 100;
};

// Of one step on one rank.
struct StepReport {
  double loss = 0;
  int64_t tokens = 0;  // of the whole step on all ranks; 0: not known
  bool wants_stop = false, wants_save = false;
};

// Of that step on all of them.
struct StepAgreed {
  double loss = 0;  // the mean
  bool any_stop = false, any_save = false;
};

class RunMonitor {
 public:
  RunMonitor(Engine& engine, RunMonitorOptions options);
  ~RunMonitor();
  RunMonitor(const RunMonitor&) = delete;
  RunMonitor& operator=(const RunMonitor&) = delete;

  // After each engine.step() that updated.
  StepAgreed step_done(const StepReport& report);
  // The last of ranks.json, timeline.json, the report, and trace.json: its path, on rank 0, where there is one. A loop that ends without
  // it leaves a run that says it is running: reports then call it lost.
  std::optional<std::string> close();

  std::optional<StepSummary> summary() const;
  // As rank 0 sees them; elsewhere empty.
  std::vector<SlowRank> slow_ranks() const;
  // Of one step on all ranks; 0: not counted yet.
  int64_t flops_per_step() const;
  // Of all ranks' devices, FLOP/s.
  double peak_flops_per_s() const { return peak_flops_per_s_; }
  const engine::FlopCount& flop_count() const { return flops_; }  // of this rank's step

 private:
  RankNumbers measure();
  void add_memory(RankNumbers& out) const;
  std::vector<RankNumbers> exchange(const StepReport& report, const RankNumbers& mine, StepAgreed& agreed);
  StepMetrics metrics_of(const StepReport& report, const StepAgreed& agreed, const RankNumbers& mine);
  void add_sent(StepMetrics& out);
  void print_memory(const RankNumbers& mine) const;
  void count_flops();
  void begin_counting(int64_t step);
  void serve_page();
  void show_profile(const RankNumbers& mine) const;
  void read_clocks();
  bool writes_report() const { return options_.record && options_.report && engine_.world().rank == 0; }
  void begin_report();
  void write_report();
  void write_timeline(const std::string& text) const;
  std::optional<std::string> join_traces();
  std::optional<std::string> joined_traces();
  bool is_traced(int64_t step) const {
    return options_.trace && step >= options_.trace_from && step <= options_.trace_to;
  }

  Engine& engine_;
  const RunMonitorOptions options_;
  const at::Device device_;
  std::vector<std::string> clocks_;     // by rank: which clock it reads
  std::vector<std::string> hosts_;      // by rank; machines of one name are told apart
  std::vector<int64_t> offsets_ns_;     // by rank: of its clock from rank 0's, as last read
  std::optional<Telemetry> telemetry_;  // where it records
  std::unique_ptr<engine::DeviceSpans> device_spans_;
  std::unique_ptr<LiveServer> page_;  // of rank 0, with "dashboard"
  MachineUse use_;
  std::optional<engine::Pace> pace_;  // where it records, on a CPU
  int64_t looked_ns_ = 0;             // at the GPU
  double gpu_percent_ = -1;
  std::optional<engine::FlopCounter> counter_;
  engine::FlopCount flops_;
  double peak_flops_per_s_ = 0;
  EngineTotals totals_;             // at the last step
  RunRecord run_;                   // where it writes the report
  std::vector<int> bucket_starts_;  // when they were last named
};

}  // namespace weft
