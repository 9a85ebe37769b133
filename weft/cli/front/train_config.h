// The config a training run goes by: the user's file, or one made of the flags. Failure: Error(kInput).
#pragma once

#include "weft/cli/front/train_options.h"
#include "weft/config/resolved.h"

namespace weft::cli {

config::Resolved train_config(const TrainOptions& options, int world_size);

}  // namespace weft::cli
