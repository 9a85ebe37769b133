// `weft bench comm --teach --measured`: the messages that --teach computes, sent between real ranks and timed.
#pragma once

#include "weft/cli/front/bench_options.h"
#include "weft/comm/group.h"

namespace weft::cli {

// A collective. Rank 0 prints computed and measured times side by side. Failure: as Group.
void measure_taught(comm::Group& group, const BenchCommOptions& options);

}  // namespace weft::cli
