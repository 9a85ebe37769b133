#include "weft/comm/host_identity.h"

#include <cstdlib>

#include "weft/base/text.h"
#include "weft/monitor/host_name.h"

namespace weft::comm {

std::string host_identity() {
  if (const char* const given = std::getenv("WEFT_HOST_ID"); given != nullptr && *given != '\0') return given;
  // Without /proc the name has to do; a wrong "same" would show as a rank that never comes, by its deadline.
  return cat(this_boot_id(), " ", this_namespace("net"), " ", this_namespace("pid"));
}

}  // namespace weft::comm
