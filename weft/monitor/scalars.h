// The numbers of a step under the names that DeepSpeed's monitors give them (Train/Samples/lr), over the number of samples
// seen; what DeepSpeed has no name for is Train/Weft/ and its name in metrics.csv. docs/monitoring.md has the table.
//
// Values and a pure function: any thread, no failure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/monitor/metrics_file.h"

namespace weft {

struct Scalar {
  std::string tag;
  double value = 0;  // may be NaN or infinite
};

struct StepScalars {
  int64_t x = 0;  // samples since the start of training, over all ranks; where nobody counts those, the step
  std::vector<Scalar> values = {};
};

// Those that are known.
StepScalars scalars_of(const StepMetrics& metrics);

}  // namespace weft
