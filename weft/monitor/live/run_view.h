// Reads a run folder again and again and says what is new: the one reader behind the live page, `weft top` and the
// endpoint for Prometheus. The files are described in docs/watching.md; whichever are there are used.
//
//   RunView view(Env::posix(), "runs/mine");
//   while (view.refresh()) {}          // true: there is more to read, call again
//   const LiveState& state = view.state();
//
// Each refresh reads only what has been written since the one before, at most a few megabytes of it, and memory does
// not grow with the run. Files that are missing, half written, cut off, replaced or of another version are normal: what
// can be read is shown, and state().notes says what could not.
//
// Threads: one owner. Failure: none but bad_alloc.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "weft/base/env.h"
#include "weft/monitor/file_time.h"
#include "weft/monitor/live/file_tail.h"
#include "weft/monitor/live/run_state.h"
#include "weft/monitor/live/step_series.h"

namespace weft {

// What the machine that reads knows of itself: whether ranks on it use much of its memory.
struct HostFacts {
  std::string name;         // as ranks.json has it
  double memory_bytes = 0;  // 0: not known

  static HostFacts of_this_machine();
};

struct RunViewOptions {
  HostFacts host = {};
  std::function<double()> now_unix_s = {};  // absent: the system's clock
  size_t max_bins = 2048;                   // of the curves
  size_t max_log_lines = 200;
  size_t bytes_a_refresh = 4 << 20;
};

class RunView {
 public:
  RunView(Env& env, const std::string& folder, RunViewOptions options = {});

  // True when there is more to read already.
  bool refresh();

  const LiveState& state() const { return state_; }
  const StepSeries& series() const { return series_; }
  const std::string& folder() const { return folder_; }

 private:
  bool read_metrics();
  void forget_rows();
  void add_row(const std::string& line);
  bool read_log();
  void read_result();
  void read_ranks();
  // The file's text when it changed since the last call; also notes what is wrong with it.
  bool read_changed(const std::string& name, std::string& known);
  void judge_progress();
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  Env& env_;
  const std::string folder_;
  const RunViewOptions options_;
  FileTail metrics_, log_;
  StepSeries series_;
  std::deque<double> recent_step_s_;
  std::string result_text_, ranks_text_;  // as last read, to see whether they changed
  SeenChange rows_seen_, ranks_seen_;
  bool is_behind_ = false;  // the last look left rows unread
  int64_t num_bad_rows_ = 0;
  std::vector<std::string> file_notes_;  // of this refresh
  std::string result_note_, ranks_note_;
  LiveState state_;
};

// The run that `path` means: itself when it is a run folder, else the run under it that was written last.
// Failure: Error(kInput) when there is none.
std::string find_run_folder(Env& env, const std::string& path);

}  // namespace weft
