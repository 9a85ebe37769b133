// What tells this host from another (its name for people is in monitor/host_name.h). A free function, any thread, no failure.
#pragma once

#include <string>

namespace weft::comm {

// Equal in two processes exactly when they can share memory through the fabric: one kernel, one network namespace (abstract
// sockets) and one process namespace (liveness). WEFT_HOST_ID overrides: ranks that may not share memory though they could.
std::string host_identity();

}  // namespace weft::comm
