// The flags of `weft run` that start ranks on other hosts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/launcher/hosts_spec.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own name
class App;
}  // namespace CLI

namespace weft::cli {

// As they were typed.
struct TypedHosts {
  std::string hosts, hostfile, ssh, remote_weft;
  std::vector<std::string> env;
  int64_t min_ranks = 0;

  bool wanted() const { return !hosts.empty() || !hostfile.empty(); }
};

void add_hosts_flags(CLI::App& app, TypedHosts& typed);

// Nothing when the ranks run here. `launch` has what all hosts share, and the ranks of hosts that do not say how many;
// its hosts and its master are filled in. Failure: Error(kInput).
std::optional<launcher::HostsSpec> take_hosts(const TypedHosts& typed, launcher::LaunchSpec launch);

}  // namespace weft::cli
