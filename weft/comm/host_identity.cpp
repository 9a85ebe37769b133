#include "weft/comm/host_identity.h"

#include <unistd.h>

#include <cstdlib>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/host_name.h"

namespace weft::comm {
namespace {

std::string link_target(const char* path) {
  char target[256];
  const ssize_t length = ::readlink(path, target, sizeof target);
  return length > 0 ? std::string(target, static_cast<size_t>(length)) : "?";
}

std::string boot_id() {
  try {
    const std::string id = read_file(Env::posix(), "/proc/sys/kernel/random/boot_id", 4096);
    return id.substr(0, id.find('\n'));
  } catch (const Error&) {
    // Without /proc the name has to do; a wrong "same" would show as a rank that never comes, by its deadline.
    return this_host_name();
  }
}

}  // namespace

std::string host_identity() {
  if (const char* const given = std::getenv("WEFT_HOST_ID"); given != nullptr && *given != '\0') return given;
  return cat(boot_id(), " ", link_target("/proc/self/ns/net"), " ", link_target("/proc/self/ns/pid"));
}

}  // namespace weft::comm
