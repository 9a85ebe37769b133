// The live progress line of anything that takes longer than two seconds.
//
//   Progress progress({.title = "train", .terminal = detect_terminal(STDERR_FILENO)});
//   for (...) progress.update({.step = step, .total_steps = total, .fraction = done, .loss = loss});
//   progress.finish();
//
// On a tty it redraws one line at most ten times a second and never wraps it; in a file or a pipe it writes a plain
// line at most every five seconds, and always the first and the last. While a Progress lives on a tty it holds the
// log's prelude, so that a log line replaces the live line instead of running into it: keep at most one alive.
//
// Threads: any may call update(); the clock is called under our lock. Failure: never throws for a terminal that went
// away or does not keep up; what cannot be shown at once is not shown.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "weft/monitor/progress_line.h"
#include "weft/monitor/terminal.h"

namespace weft {

struct ProgressOptions {
  std::string title;
  int fd = STDERR_FILENO;  // not owned
  Terminal terminal = {};  // its columns are read anew at each redraw where fd has a window
};

class Progress {
 public:
  // `now_ns` must not run backwards; by default the steady clock.
  explicit Progress(ProgressOptions options, std::function<int64_t()> now_ns = nullptr);
  ~Progress();  // as finish()
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Remembers the sample, and draws it when it is time.
  void update(const ProgressSample& sample);

  // Shows the last sample and ends its line; later calls do nothing. Without any update() nothing is written.
  void finish();

 private:
  void draw_live(std::string_view line_end);
  void draw_plain();
  void erase_live();

  const ProgressOptions options_;
  const std::function<int64_t()> now_ns_;
  std::mutex mutex_;  // taken inside the log's lock by the prelude, so never log while holding it
  std::optional<ProgressSample> last_;
  std::optional<int64_t> drawn_at_ns_;
  bool last_is_drawn_ = false;
  bool line_is_live_ = false;  // the cursor stands behind a line of ours
  bool finished_ = false;
};

}  // namespace weft
