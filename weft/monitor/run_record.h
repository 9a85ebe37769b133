// The measurements of one training run, step by step, and their JSON form: what `weft train --json` prints and
// result.json holds. A plain value owned by the training loop; not thread-safe. docs/formats/result_json.md describes
// the fields.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/quantile.h"
#include "weft/monitor/step_times.h"

namespace weft {

// How gradients were cut where the engine chose ("weft": {"bucket": "auto"}).
struct BucketFacts {
  int64_t num_buckets = 1;
  double latency_ms = 0, bytes_per_s = 0;  // of the link, as measured
  double expected_exposed_ms = 0, bound_exposed_ms = 0, achieved_exposed_ms = 0;
};

// What saving and loading cost; of rank 0.
struct CheckpointFacts {
  int64_t num_saves = 0, num_failed = 0;
  int64_t bytes = 0;                           // of all ranks and saves
  double stopped_ms = 0, longest_stop_ms = 0;  // that training stood still
  double waited_ms = 0;                        // of that, for the save before
  double write_ms = 0;                         // behind it
  double load_ms = 0;                          // that loading took, before the first step; 0: nothing was loaded
  int64_t num_copies = 0;                      // in memory
  double copy_stopped_ms = 0;                  // that training stood still for them
};

// Fixed when the run starts, except where a comment says otherwise. All in bytes where the name says so.
struct RunFacts {
  std::string name;
  std::string status = "running";  // then: finished, stopped, failed
  std::string device;
  std::string data;
  int64_t params = 0;
  int64_t world = 1;
  int64_t stage = 0;
  int64_t threads = 1;
  int64_t seed = 0;
  int64_t tokens_per_step = 0;
  int64_t first_step = 0;  // above 0 after a resume
  int64_t params_bytes = 0, grads_bytes = 0, optimizer_bytes = 0;
  // Known at the end.
  int64_t bytes_sent = 0;
  double exposed_comm_ms = 0;
  std::optional<StepSummary> parts;  // of the steps' time
  std::optional<BucketFacts> buckets;
  std::optional<CheckpointFacts> checkpoints;
  int64_t flops_per_step = 0;             // of all ranks; 0: not counted
  double peak_flops_per_s = 0;            // of all ranks' devices; 0: not known
  std::map<std::string, int64_t> ledger;  // bytes that a rank keeps by the plan, by kind; at the start
  std::optional<int64_t> host_memory_bytes, device_memory_bytes;  // that there are; at the start
  int64_t peak_rss_bytes = 0;
  std::optional<int64_t> peak_device_bytes;
  std::optional<double> unigram_entropy;  // nats per token
  std::optional<double> held_out_loss;
};

// Steps at the start that are not timed: caches are cold, memory is first touched. Five, but never more than a third.
int64_t num_warmup_steps(int64_t num_steps);

class RunRecord {
 public:
  RunFacts facts;

  void add_step(float loss, int64_t step_ns);
  // Of the step that was added last: what its loss was multiplied by, and whether its update was left out. For fp16.
  void add_scale(double loss_scale, bool skipped);

  int64_t num_steps() const { return static_cast<int64_t>(losses_.size()); }
  const std::vector<float>& losses() const { return losses_; }
  double step_ms(int64_t i) const { return static_cast<double>(step_ns_[static_cast<size_t>(i)]) * 1e-6; }

  Spread times_ms() const;
  double tokens_per_s() const;  // over the timed steps
  // Mean over the last tenth of the steps, at least one: a single micro-batch is too noisy to quote.
  double final_loss() const;

  std::string to_json() const;

 private:
  std::vector<float> losses_;
  std::vector<int64_t> step_ns_;
  std::vector<double> loss_scales_;
  std::vector<int64_t> skipped_steps_;
};

}  // namespace weft
