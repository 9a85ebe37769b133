// What stands behind the measuring half of `weft bench comm`: the ranks. Started by a launcher (RANK is set) this process is one
// of them; else it becomes `weft run`, which starts as many of it as were asked for.
#pragma once

#include <string>
#include <vector>

#include "weft/cli/front/bench_options.h"

namespace weft::cli {

// `arguments` are those after "comm", which `options` were read from. Does not return; throws Error, IoError.
[[noreturn]] void run_bench_comm(const BenchCommOptions& options, const std::vector<std::string>& arguments);

}  // namespace weft::cli
