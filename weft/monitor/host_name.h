// The name of this machine, for what people read: dumps and file names. A pure function of the system, any thread; "" where
// it has none.
#pragma once

#include <string>

namespace weft {

std::string this_host_name();

}  // namespace weft
