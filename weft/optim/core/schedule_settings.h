// Makes a Schedule from the `scheduler` section of a config. Pure functions, any thread.
// Failure: Error(kInput) with everything that is wrong about the section.
#pragma once

#include "weft/config/resolved.h"
#include "weft/optim/core/schedule.h"

namespace weft::optim {

// A section without a type is FixedLr. `num_groups`: the optimizer's parameter groups, for arguments given as lists.
Schedule read_schedule(const config::Scheduler& section, size_t num_groups = 1);

}  // namespace weft::optim
