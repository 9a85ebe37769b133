// What a run left in its folder, read back: the one source of reports, pages and comparisons. docs/formats/run_folder.md
// describes the files.
//
//   const RunFiles run = load_run(Env::posix(), "runs/mine");
//   page = render_report_html(run, {});
//
// Every file may be missing, torn, half written by a crash, of a newer version, or not ours at all: what can be read is
// read, the rest is named in `notes`, and sizes have hard limits, so that no folder can take the reader down.
//
// Threads: a value; load_run() any. Failure: load_run() throws Error(kInput) where there is no such folder; nothing else.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/monitor/slow_rank.h"

namespace weft {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// A line of metrics.jsonl. A value that is not known is NaN.
struct RunRow {
  int64_t step = 0;
  bool has_loss = false;  // a loss that has a field and is NaN was no number, which is worth saying
  double loss = kUnknown, lr = kUnknown, grad_norm = kUnknown, loss_scale = kUnknown;
  double samples_per_s = kUnknown, tokens_per_s = kUnknown;
  double step_ms = kUnknown, data_ms = kUnknown, forward_ms = kUnknown, backward_ms = kUnknown;
  double forward_busy_ms = kUnknown, backward_busy_ms = kUnknown, optimizer_busy_ms = kUnknown;
  double optimizer_ms = kUnknown, exposed_comm_ms = kUnknown, checkpoint_ms = kUnknown, other_ms = kUnknown;
  double mfu = kUnknown, cpu_percent = kUnknown, gpu_percent = kUnknown;
  double rss_bytes = kUnknown, device_bytes = kUnknown, device_reserved_bytes = kUnknown;
  double peak_rss_bytes = kUnknown, peak_device_bytes = kUnknown, peak_device_reserved_bytes = kUnknown;
  double device_fragmentation = kUnknown, unix_s = kUnknown;
  double sent_reduce_bytes = kUnknown, sent_gather_bytes = kUnknown, sent_loss_bytes = kUnknown;
};

// Of result.json; what is absent there is NaN, 0 or empty here.
struct RunResult {
  std::string name = {}, status = {}, device = {}, data = {};
  int64_t params = 0, world = 0, stage = -1, threads = 0, seed = 0, first_step = 0, steps = 0, tokens_per_step = 0;
  double final_loss = kUnknown, held_out_loss = kUnknown, unigram_entropy = kUnknown;
  double tokens_per_s = kUnknown, bytes_sent = kUnknown;
  double peak_rss_bytes = kUnknown, peak_device_bytes = kUnknown;
  // What the memory of a rank's host and of its device holds.
  double host_memory_bytes = kUnknown, device_memory_bytes = kUnknown;
  double bound_exposed_ms = kUnknown, achieved_exposed_ms = kUnknown;  // of tuned buckets
  std::map<std::string, double> state_bytes = {};                      // measured: params, grads, optimizer
  std::map<std::string, double> ledger = {};                           // planned, by kind
  std::vector<double> losses = {};  // null is NaN; step i of them is first_step + i + 1
};

struct RankRow {
  int64_t rank = 0;
  std::string host = {};
  double step_ms = kUnknown, data_ms = kUnknown, forward_ms = kUnknown, backward_ms = kUnknown;
  double optimizer_ms = kUnknown, exposed_comm_ms = kUnknown, checkpoint_ms = kUnknown, busy_ms = kUnknown;
  double rss_bytes = kUnknown, device_bytes = kUnknown, device_reserved_bytes = kUnknown;
  double peak_rss_bytes = kUnknown, peak_device_bytes = kUnknown, peak_device_reserved_bytes = kUnknown;
  double host_bytes = kUnknown;
  double cpu_percent = kUnknown, gpu_percent = kUnknown;
};

// Of ranks.json: the last window of steps.
struct RunRanks {
  int64_t step = 0, world = 0;
  double unix_s = kUnknown;
  std::vector<RankRow> ranks = {};
  std::vector<SlowRank> slow = {};
};

struct SettingRow {
  std::string path, value, from;  // the value as JSON, a text without its quotes
  bool is_default() const { return from.starts_with("default"); }
};

struct AdviceRow {
  std::string severity, path, en, zh, fix_en, fix_zh;
};

struct RunSettings {
  std::vector<SettingRow> settings = {};
  std::vector<AdviceRow> advice = {};
};

struct TimelineStep {
  int64_t step = 0;
  double start_ns = 0, end_ns = 0;
};
struct TimelineRow {
  int64_t rank = 0;
  std::string track;
};
struct TimelineSpan {
  size_t row = 0;  // of RunTimeline::rows
  double start_ns = 0, end_ns = 0;
  std::string name = {}, category = {};
  int64_t bucket = -1, bytes = -1;
};

// Of timeline.json: a few late steps of all ranks on one clock.
struct RunTimeline {
  std::vector<TimelineStep> steps = {};
  std::vector<TimelineRow> rows = {};
  std::vector<TimelineSpan> spans = {};
};

// A module with all that is in it, in FLOP.
struct FlopsRow {
  std::string name = {}, type = {};
  int64_t depth = 0;
  double num_parameters = kUnknown, forward = kUnknown, backward = kUnknown, recomputed = kUnknown;
  double ms = kUnknown;  // in the operators that were counted
};

// Of flops.json: one step of rank 0.
struct RunFlops {
  int64_t step = 0;
  double total = kUnknown;
  std::vector<FlopsRow> modules = {};  // the model itself first, each before those in it
  FlopsRow elsewhere = {};
};

struct RunFiles {
  std::string folder;
  std::vector<RunRow> rows = {};  // ascending, each step once: of a step that was run twice the later row
  std::optional<RunResult> result = {};
  std::optional<RunRanks> ranks = {};
  std::optional<RunSettings> settings = {};
  std::optional<RunTimeline> timeline = {};
  std::optional<RunFlops> flops = {};
  std::vector<std::string> last_lines = {};  // of log.txt
  bool has_flight_dumps = false;
  double written_unix_s = kUnknown;     // when a step was last recorded, as the file system here has it
  std::vector<std::string> notes = {};  // what could not be read, a sentence each

  // result.json's, else the folder's.
  std::string name() const;
};

struct RunLimits {
  uint64_t json_bytes = uint64_t{256} << 20;
  size_t rows = 1'000'000, ranks = 4'096, settings = 4'096, spans = 200'000, modules = 100'000;
};

RunFiles load_run(Env& env, const std::string& folder, const RunLimits& limits = {});

// Whether this is the folder of a run: it holds one of the files above.
bool is_run_folder(Env& env, const std::string& folder);

}  // namespace weft
