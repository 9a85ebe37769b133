// What a rank finds in its environment: the variables torchrun sets, so that a program needs no change to run under
// either, and the number of threads that shares the host's cores between the ranks.
//
// Free functions, no state, any thread. Nothing here fails.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/launcher/launch_spec.h"

namespace weft::launcher {

// Changes to our own environment: a value sets, nothing removes.
using Variables = std::map<std::string, std::optional<std::string>>;

// `num_cpus` are those this host's ranks share. OMP_NUM_THREADS of the caller stays unless spec.threads says otherwise.
Variables rank_environment(const LaunchSpec& spec, int local_rank, int attempt, int port, int num_cpus);

// The CPUs this process may run on, by number.
std::vector<int> allowed_cpus();

// Rank i's share of the CPUs, next to each other in their list. Requires: num_ranks <= cpus.size().
std::vector<int> cpus_of_rank(const std::vector<int>& cpus, int num_ranks, int local_rank);

}  // namespace weft::launcher
