// The measurements of each step as one row of a CSV file or one line of a JSON-lines file, for those who plot while the
// run goes on. docs/formats/metrics.md describes both.
//
//   MetricsFile csv(Env::posix(), "runs/x/metrics.csv", MetricsFormat::kCsv, resumed_step + 1);
//   csv.add({.step = step, .loss = loss, .lr = lr, .step_ms = times.step_ms});
//
// A resumed run goes on in the same file: rows at or past `next_step` come from steps that will be done again and are
// cut off, and so is a row that a crash left torn. The caller decides which rank has one: rank 0, as a rule.
//
// Threads: one owner. Failure: the constructor throws IoError, and Error(kInput) for a file that holds something else,
// which is left as it is. After that nothing throws: while the disk takes no rows they are left out (write_trouble.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "weft/base/env.h"
#include "weft/monitor/append_file.h"

namespace weft {

// What is not known stays empty; a loss may be NaN or infinite.
struct StepMetrics {
  int64_t step = 0;
  std::optional<double> samples = {};  // since the start of training, over all ranks
  std::optional<double> loss = {}, lr = {}, grad_norm = {}, loss_scale = {};
  std::optional<double> samples_per_s = {}, tokens_per_s = {};
  std::optional<double> step_ms = {}, forward_ms = {}, backward_ms = {}, optimizer_ms = {}, exposed_comm_ms = {};
  std::optional<double> data_ms = {}, checkpoint_ms = {}, other_ms = {};
  std::optional<double> skipped_steps = {};  // so far
  std::optional<double> flops_per_s = {};    // over all ranks
  std::optional<double> mfu = {};            // of the machine's peak, 0 to 1
  std::optional<double> sent_bytes = {};     // by this rank in this step: gradients and parameters
  // What that was for; loss: with the numbers that ranks tell each other of a step.
  std::optional<double> sent_reduce_bytes = {}, sent_gather_bytes = {}, sent_loss_bytes = {};
  std::optional<double> rss_bytes = {}, device_bytes = {}, device_reserved_bytes = {};  // after the step
  // The most since the process began: activations are in these, and are gone when the step is over.
  std::optional<double> peak_rss_bytes = {}, peak_device_bytes = {}, peak_device_reserved_bytes = {};
  std::optional<double> device_fragmentation = {};  // the part of what is reserved that is not allocated, 0 to 1
  std::optional<double> cpu_percent = {}, gpu_percent = {};  // 100: one core, or the device, all the time
  std::optional<double> unix_s = {};                         // when the step ended
  // Over ranks; busy: the step without waits for communication.
  std::optional<double> step_ms_min = {}, step_ms_mean = {}, step_ms_max = {};
  std::optional<double> busy_ms_min = {}, busy_ms_mean = {}, busy_ms_max = {};
  std::optional<double> waits_ms_min = {}, waits_ms_mean = {}, waits_ms_max = {};  // exposed_comm_ms
  std::optional<double> rss_bytes_min = {}, rss_bytes_mean = {}, rss_bytes_max = {};
  std::optional<double> device_bytes_min = {}, device_bytes_mean = {}, device_bytes_max = {};
  // The same without the waits inside.
  std::optional<double> forward_busy_ms = {}, backward_busy_ms = {}, optimizer_busy_ms = {};
};

// A number of a step by its name, for those who take all of them: files, sinks.
struct MetricsColumn {
  const char* name;
  std::optional<double> StepMetrics::* value;
};
std::span<const MetricsColumn> metrics_columns();

enum class MetricsFormat { kCsv, kJsonLines };

class MetricsFile {
 public:
  // `next_step` is the first step this run will add.
  MetricsFile(Env& env, const std::string& path, MetricsFormat format, int64_t next_step);

  // A step that is not above the last one in the file is not written again.
  void add(const StepMetrics& metrics);

  uint64_t num_left_out() const { return num_left_out_; }

 private:
  // Where the rows to keep end; sets last_step_.
  uint64_t end_of_rows_before(Env& env, int64_t next_step);

  const std::string path_;
  const MetricsFormat format_;
  size_t num_columns_;  // of the file: an older version's has fewer, and stays as it is
  std::optional<AppendFile> file_;
  std::optional<int64_t> last_step_;
  uint64_t num_left_out_ = 0;
};

}  // namespace weft
