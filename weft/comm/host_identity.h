// What this host is called in errors and logs, and what tells it from another. Free functions, any thread, no failure.
#pragma once

#include <string>

namespace weft::comm {

// As uname says; "localhost" when it says nothing.
std::string host_name();

// Equal in two processes exactly when they can share memory through the fabric: one kernel, one network namespace (abstract
// sockets) and one process namespace (liveness). WEFT_HOST_ID overrides: ranks that may not share memory though they could.
std::string host_identity();

}  // namespace weft::comm
