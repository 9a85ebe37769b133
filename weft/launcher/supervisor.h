// Runs a program as the ranks of this host, and again after a failure as often as was asked for. Whatever happens, no
// process of theirs is left when it returns or throws.
//
//   const RunResult result = supervise({.argv = {"python3", "train.py"}, .num_local = 4});
//   return result.exit_code;
//
// Threads: call it from the only thread of the process. Signals to us go to the ranks meanwhile.
// Failure: Error(kInput) for what cannot be started; a rank that fails is in the result.
#pragma once

#include "weft/launcher/launch_spec.h"
#include "weft/launcher/run_result.h"

namespace weft::launcher {

RunResult supervise(const LaunchSpec& spec);

}  // namespace weft::launcher
