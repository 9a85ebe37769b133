// The flags of `weft run`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/launcher/hosts_spec.h"

namespace weft::cli {

struct RunOptions {
  launcher::LaunchSpec launch;
  std::optional<launcher::HostsSpec> hosts;  // what to start in its place, when the ranks are on other hosts
  std::string json_path;
};

// Nothing when help was printed. Failure: Error(kInput).
std::optional<RunOptions> parse_run_options(const std::vector<std::string>& arguments);

}  // namespace weft::cli
