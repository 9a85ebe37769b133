// The config a training run goes by: the user's file, or one made of the flags. Failure: Error(kInput).
#pragma once

#include "weft/cli/front/train_options.h"
#include "weft/config/reading.h"

namespace weft::cli {

// With where each value came from.
config::Reading train_reading(const TrainOptions& options, int world_size);
config::Resolved train_config(const TrainOptions& options, int world_size);

}  // namespace weft::cli
