// What a rank finds in its environment: the variables torchrun sets, so that a program needs no change to run under
// either, the number of threads that shares the host's cores between the ranks, and memory that stays between steps.
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

// A step frees and takes the same blocks again and again. glibc would give large ones back to the kernel each time and fault them in anew,
// page by page: 32,000 faults a step for 17M parameters. docs/notes/memory_between_steps.md has the profile. glibc reads these settings
// only at start, hence from the environment. A value the user has set wins.
inline constexpr const char* kMemoryVariable = "GLIBC_TUNABLES";
inline constexpr const char* kMemoryKept =
    "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=17179869184:glibc.malloc.mmap_threshold=33554432:"
    "glibc.malloc.top_pad=67108864";

// `num_cpus` are those this host's ranks share. OMP_NUM_THREADS of the caller stays unless spec.threads says otherwise.
Variables rank_environment(const LaunchSpec& spec, int local_rank, int attempt, int port, int num_cpus);

// The CPUs this process may run on, by number.
std::vector<int> allowed_cpus();

// Rank i's share of the CPUs, next to each other in their list. Requires: num_ranks <= cpus.size().
std::vector<int> cpus_of_rank(const std::vector<int>& cpus, int num_ranks, int local_rank);

}  // namespace weft::launcher
