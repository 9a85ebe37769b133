// The name of this machine, for what people read: errors, dumps and file names. A pure function of the system, any thread;
// "localhost" where it has none.
#pragma once

#include <string>

namespace weft {

std::string this_host_name();

}  // namespace weft
