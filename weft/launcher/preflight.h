// What is refused before anything is started.
//
// Threads: one. Failure: Error(kInput), saying what to change. Makes the folder for the logs.
#pragma once

#include <cstddef>

#include "weft/launcher/launch_spec.h"

namespace weft::launcher {

void check_launch(const LaunchSpec& spec);

// Raises the limit on open files where we need more than it allows.
void make_room_for_descriptors(size_t count);

// Says so when a launcher has started us as one of several: each of them would start ranks of its own.
void warn_of_outer_launcher(const LaunchSpec& spec);

}  // namespace weft::launcher
