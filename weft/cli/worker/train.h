// `weft train`: builds the model and the data, runs the loop, prints the closing table, writes result.json and report.html.
#pragma once

#include "weft/cli/front/train_options.h"

namespace weft::cli {

// Returns the exit code; throws Error.
int train(const TrainOptions& options);

}  // namespace weft::cli
