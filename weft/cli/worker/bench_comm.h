// One rank of `weft bench comm`: measures collectives, and in rank 0 prints what came out.
#pragma once

#include "weft/cli/front/bench_options.h"

namespace weft::cli {

// Returns the exit code. Failure: Error, PeerLost.
int bench_comm(const BenchCommOptions& options);

}  // namespace weft::cli
