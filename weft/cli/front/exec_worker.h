// Becomes weft-worker, the binary that links libtorch. Does not return.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::cli {

// Looks beside this binary, then in ../libexec/weft. Throws Error when the worker is in neither place or cannot be run.
[[noreturn]] void exec_worker(const std::string& command, const std::vector<std::string>& arguments);

// Becomes `weft run`, which starts this binary with these words once for each rank. `threads` 0: a share of the cores.
[[noreturn]] void exec_ranks(int64_t num_ranks, int64_t threads, const std::vector<std::string>& words);

}  // namespace weft::cli
