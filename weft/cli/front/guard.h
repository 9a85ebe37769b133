// The last line of defence of both binaries: whatever a command throws becomes a message on standard error and an exit code.
#pragma once

#include <functional>

namespace weft::cli {

int guarded(const std::function<int()>& body);

}  // namespace weft::cli
