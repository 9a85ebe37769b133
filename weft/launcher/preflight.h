// What is refused before anything is started.
//
// Threads: one. Failure: Error(kInput), saying what to change. Makes the folder for the logs.
#pragma once

#include "weft/launcher/launch_spec.h"

namespace weft::launcher {

void check_launch(const LaunchSpec& spec);

// Says so when a launcher has started us as one of several: each of them would start ranks of its own.
void warn_of_outer_launcher(const LaunchSpec& spec);

}  // namespace weft::launcher
