// Who am I? The rank, the world and where to meet, read from what the launcher left in the environment.
//
//   const RankIdentity me = read_rank_environment();
//   log_info(describe(me));            // rank 1 of 4 (torchrun), local rank 1 of 2, master node0:29500
//
// The first of these that is there decides; the others are not mixed in:
//
//   1. RANK and WORLD_SIZE, as torchrun and `weft run` set them. They go first because either may run inside an allocation
//      or below mpirun, whose own variables then count the launchers and not the ranks.
//   2. OMPI_COMM_WORLD_RANK and _SIZE. Before Slurm's: mpirun inside an allocation starts its daemons as Slurm tasks, and
//      the ranks inherit the daemon's SLURM_PROCID.
//   3. SLURM_PROCID and SLURM_NTASKS. The script of sbatch itself has a SLURM_PROCID of 0, too, and SLURM_NTASKS where -n was
//      given: a program started there without srun is rank 0 and waits for ranks that nobody started. Nothing in the
//      environment tells the two apart for certain, so it is not refused here. In a shell of salloc there is no
//      SLURM_PROCID: a program is then alone.
//   4. nothing: rank 0 of 1.
//
// MASTER_ADDR and MASTER_PORT hold for every source. Without them Slurm's master is the first host of the step, and its
// port is made from the job and the step; ranks that are all on one host need neither.
// Where RANK was set by hand (no TORCHELASTIC_RUN_ID) and mpirun says something else, that is an error; Slurm's numbers may
// differ from it, since a batch script may well start ranks itself.
//
// Threads: free functions; like getenv, not while another thread changes the environment. Failure: Error(kInput) with the
// variables, their values and what to do.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace weft::comm {

struct RankIdentity {
  int rank = 0, world = 1;
  std::optional<int> local_rank = {}, local_world = {};  // among the ranks of this host
  std::optional<int> num_hosts = {};
  std::string master_addr = {};         // empty: not given, which is possible only where all ranks are on one host
  std::optional<int> master_port = {};  // given whenever the ranks may be on several hosts
  std::string run_id = {};              // the same in all ranks; empty where the launcher has none
  std::string_view source = "alone";    // "torchrun", "weft run", "Slurm", "Open MPI", "alone"

  // Known for certain; false may also mean that nobody said.
  bool all_on_one_host() const { return world == 1 || num_hosts == 1 || local_world == world; }
};

// Gives a variable's value, or nothing where it is not set.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

RankIdentity read_rank_environment(const Lookup& lookup);
RankIdentity read_rank_environment();

std::string describe(const RankIdentity& identity);

}  // namespace weft::comm
