// What an attempt on several hosts amounts to: from what the hosts reported, the record of all ranks, the exit code and
// the words to end with.
//
// Free functions, no state, any thread. Nothing here fails.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/launcher/agent_job.h"
#include "weft/launcher/hosts_spec.h"
#include "weft/launcher/restarts.h"

namespace weft::launcher {

struct HostsFacts {
  int attempt = 0;
  std::vector<std::optional<AgentReport>> reports = {};  // one per host; nothing from one that was lost
  bool started = false;                                  // all hosts had answered
  std::optional<RankEnd> first_failure = {};             // with its host
  std::optional<Error> error = {};                       // in place of a failure: a host was lost, or refused
  std::optional<int> interrupted_by = {};
};

// `last_lines`: what a rank printed last on standard error.
Outcome outcome_of(const HostsSpec& spec, const HostsFacts& facts,
                   const std::function<std::vector<std::string>(int rank)>& last_lines);

}  // namespace weft::launcher
