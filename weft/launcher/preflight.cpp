#include "weft/launcher/preflight.h"

#include <sys/resource.h>

#include <cstdlib>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/launcher/port.h"
#include "weft/launcher/rank_environment.h"

namespace weft::launcher {
namespace {

[[noreturn]] void refuse_launch(std::string title, std::string what, std::string fix) {
  throw Error(ErrorKind::kInput,
              {.title = std::move(title), .what = std::move(what), .where = "", .fix = std::move(fix)});
}

void check_ranks(const LaunchSpec& spec) {
  if (spec.num_local < 1 || spec.num_local > kMaxLocalRanks) {
    refuse_launch("not a number of ranks for one host", cat(spec.num_local, " is outside 1..", kMaxLocalRanks),
                  "choose another -n");
  }
  const size_t num_cpus = allowed_cpus().size();
  if (spec.bind_cores && static_cast<size_t>(spec.num_local) > num_cpus) {
    refuse_launch("there are more ranks than cores to bind them to",
                  cat(spec.num_local, " ranks, ", num_cpus, " cores this process may use"),
                  "--bind none, or fewer ranks");
  }
}

bool is_set(const char* value) { return value != nullptr && *value != '\0'; }

}  // namespace

// The limit is raised only where it must be: the ranks inherit it, and old programs (select) do not like a high one.
void make_room_for_descriptors(size_t count) {
  constexpr rlim_t kOurOwn = 64;
  const rlim_t wanted = count + kOurOwn;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  if (limit.rlim_max < wanted) {
    refuse_launch("too few open files are allowed for so many ranks or hosts",
                  cat(wanted, " are needed, the limit is ", limit.rlim_max), cat("ulimit -n ", wanted));
  }
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void check_launch(const LaunchSpec& spec) {
  check_ranks(spec);
  // Rank 0 listens, and it lives on the first host.
  const bool is_chosen = spec.master_port || spec.num_hosts > 1;
  if (is_chosen && spec.host_rank == 0) require_free_port(spec.master_port.value_or(kDefaultMasterPort));
  constexpr size_t kDescriptorsPerRank = 3;
  make_room_for_descriptors(kDescriptorsPerRank * static_cast<size_t>(spec.num_local));
  if (!spec.log_dir.empty()) Env::posix().make_folders(spec.log_dir);
}

void warn_of_outer_launcher(const LaunchSpec& spec) {
  const bool in_slurm = is_set(std::getenv("SLURM_PROCID")), in_mpi = is_set(std::getenv("OMPI_COMM_WORLD_RANK"));
  if (spec.num_local < 2 || !(in_slurm || in_mpi)) return;
  log_warn(in_mpi ? "mpirun" : "Slurm", " started this process as a rank (",
           in_mpi ? "OMPI_COMM_WORLD_RANK" : "SLURM_PROCID", " is set), and it starts ", spec.num_local,
           " ranks of its own: with srun or mpirun use one task per host");
}

}  // namespace weft::launcher
