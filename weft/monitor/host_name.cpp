#include "weft/monitor/host_name.h"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft {

std::string this_host_name() {
  char name[256] = {};
  // A name that does not fit comes without its end.
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

std::string this_boot_id() {
  try {
    const std::string id = read_file(Env::posix(), "/proc/sys/kernel/random/boot_id", 4096);
    return id.substr(0, id.find('\n'));
  } catch (const Error&) {
    return this_host_name();
  }
}

std::string this_namespace(std::string_view kind) {
  char target[256];
  const ssize_t length = ::readlink(cat("/proc/self/ns/", kind).c_str(), target, sizeof target);
  return length > 0 ? std::string(target, static_cast<size_t>(length)) : "?";
}

std::vector<std::string> told_apart(const std::vector<std::string>& names, const std::vector<std::string>& clocks) {
  std::map<std::string, std::vector<std::string>> clocks_of;
  std::vector<std::string> out;
  for (size_t rank = 0; rank < names.size(); ++rank) {
    auto& known = clocks_of[names[rank]];
    const auto at = std::ranges::find(known, clocks[rank]);
    const auto machine = at - known.begin();
    if (at == known.end()) known.push_back(clocks[rank]);
    out.push_back(machine == 0 ? names[rank] : cat(names[rank], " (", machine + 1, ")"));
  }
  return out;
}

// The name as well: machines that were copied while they ran have one boot id. A time namespace shifts the clock.
std::string this_clock_name() { return cat(this_host_name(), " ", this_boot_id(), " ", this_namespace("time")); }

}  // namespace weft
