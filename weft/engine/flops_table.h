// The FLOPs of a step as a table: the answer to "flops_profiler". Pure function, any thread, no failure.
#pragma once

#include <string>

#include "weft/engine/flop_counter.h"

namespace weft::engine {

struct FlopsOf {
  int64_t step = 0;
  double step_ms = 0;           // 0: not known
  double peak_flops_per_s = 0;  // of this rank's device; 0: not known
  bool only_total = false;
};

std::string flops_table(const FlopCount& count, const FlopsOf& of);

}  // namespace weft::engine
