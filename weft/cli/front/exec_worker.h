// Becomes weft-worker, the binary that links libtorch. Does not return.
#pragma once

#include <string>
#include <vector>

namespace weft::cli {

// Looks beside this binary, then in ../libexec/weft. Throws Error when the worker is in neither place or cannot be run.
[[noreturn]] void exec_worker(const std::string& command, const std::vector<std::string>& arguments);

}  // namespace weft::cli
