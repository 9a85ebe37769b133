// The FLOPs of a step for people and for programs: the answer to "flops_profiler". Pure functions, any thread, no failure.
//
// The table: sums; the largest kinds of modules of each depth; the tree of modules; operators.
#pragma once

#include <string>

#include "weft/engine/flop_counter.h"

namespace weft::engine {

struct FlopsOf {
  int64_t step = 0;
  double step_ms = 0;           // 0: not known
  double peak_flops_per_s = 0;  // of this rank's device; 0: not known
  bool has_times = false;       // of operators: only where they run when they are called
  // As "flops_profiler" has them.
  bool detailed = true;
  int64_t module_depth = -1, top_modules = 1;
  double recompute_fwd_factor = 0;
};

std::string flops_table(const FlopCount& count, const FlopsOf& of);

// On-disk: flops.json of the run's folder (docs/formats/run_folder.md), all modules whatever the depth.
std::string flops_json(const FlopCount& count, const FlopsOf& of);

}  // namespace weft::engine
