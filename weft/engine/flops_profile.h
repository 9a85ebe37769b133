// "flops_profiler" of the config: the FLOPs of one step, shown and kept once. Free functions, any thread. Failure: none; a file that
// cannot be written costs a warning, and a table goes to the log then.
#pragma once

#include <string>

#include "weft/config/resolved.h"
#include "weft/engine/flop_counter.h"

namespace weft::engine {

struct ProfiledStep {
  std::string folder;  // of the run
  int64_t step = 0;
  double step_ms = 0, peak_flops_per_s = 0;  // 0: not known
  bool on_cpu = true;
};

// Whether it is the one; the first where a config says 0 or less.
bool is_profiled(const config::Resolved& config, int64_t step);

// The table to the log or to "output_file", and flops.json to the run's folder.
void show_flops(const FlopCount& count, const config::FlopsProfiler& profiler, const ProfiledStep& of);

}  // namespace weft::engine
