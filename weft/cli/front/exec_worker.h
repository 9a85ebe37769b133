// Becomes weft-worker, the binary that links libtorch. Does not return.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::cli {

// Looks beside this binary, then in ../libexec/weft. Throws Error when the worker is in neither place or cannot be run.
[[noreturn]] void exec_worker(const std::string& command, const std::vector<std::string>& arguments);

struct RanksToStart {
  int64_t count = 1;
  int64_t threads = 0;   // of each; 0: a share of the cores
  int64_t restarts = 0;  // after failures, from the newest checkpoint
};
// Becomes `weft run`, which starts this binary with these words once for each rank.
[[noreturn]] void exec_ranks(const RanksToStart& ranks, const std::vector<std::string>& words);

}  // namespace weft::cli
