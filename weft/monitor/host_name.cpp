#include "weft/monitor/host_name.h"

#include <unistd.h>

namespace weft {

std::string this_host_name() {
  char name[256] = {};
  // A name that does not fit comes without its end.
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

}  // namespace weft
