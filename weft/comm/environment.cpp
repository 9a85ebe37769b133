#include "weft/comm/environment.h"

#include <algorithm>
#include <cstdlib>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/comm/slurm_text.h"

namespace weft::comm {
namespace {

constexpr int kMaxWorld = 65536;

struct Variable {
  const char* name;
  std::optional<std::string> value;

  explicit operator bool() const { return value.has_value(); }
  std::string shown() const { return value ? cat(name, "='", *value, "'") : cat(name, " is not set"); }
};

// The lookup, under the name that tools/gen_docs.py looks for.
struct Variables {
  const Lookup& lookup;
  Variable getenv(const char* name) const { return {name, lookup(name)}; }
};

[[noreturn]] void refuse_environment(std::string title, std::string what, std::string fix) {
  throw Error(ErrorKind::kInput, {.title = std::move(title),
                                  .what = std::move(what),
                                  .where = "the environment of this process",
                                  .fix = std::move(fix)});
}

int number(const Variable& variable, int least, int most) {
  const auto value = whole_number(*variable.value);
  if (!value || *value < least || *value > most) {
    refuse_environment(cat(variable.name, " is not a whole number from ", least, " to ", most), variable.shown(),
                       cat("set it to such a number, without spaces, or unset ", variable.name));
  }
  return static_cast<int>(*value);
}

std::optional<int> optional_number(const Variable& variable, int least, int most) {
  return variable ? std::optional(number(variable, least, most)) : std::nullopt;
}

void require_below(const Variable& index, int value, const Variable& count, int limit) {
  if (value < limit) return;
  refuse_environment(cat(index.name, " is not below ", count.name), cat(index.shown(), ", ", count.shown()),
                     cat("ranks are numbered from 0: ", index.name, " is at most ", count.name, " less one"));
}

// Both or neither; false when neither is there.
bool is_pair(const Variable& first, const Variable& second, std::string_view who) {
  if (first.value.has_value() == second.value.has_value()) return first.value.has_value();
  refuse_environment(cat(first.name, " and ", second.name, " belong together, and one is missing"),
                     cat(first.shown(), ", ", second.shown()), cat("set both as ", who, " does, or unset both"));
}

void read_place(RankIdentity& me, const Variable& rank, const Variable& world) {
  me.world = number(world, 1, kMaxWorld);
  me.rank = number(rank, 0, kMaxWorld);
  require_below(rank, me.rank, world, me.world);
}

void read_local_place(RankIdentity& me, const Variable& rank, const Variable& local, const Variable& all) {
  me.local_rank = optional_number(rank, 0, kMaxWorld);
  me.local_world = optional_number(local, 1, kMaxWorld);
  if (me.local_world.value_or(1) > me.world) {
    refuse_environment(cat(local.name, " is above ", all.name), cat(local.shown(), ", ", all.shown()),
                       "a host cannot have more ranks than there are: correct the one that is wrong, or unset both");
  }
  if (me.local_rank)
    require_below(rank, *me.local_rank, me.local_world ? local : all, me.local_world.value_or(me.world));
}

void read_num_hosts(RankIdentity& me, const Variable& hosts, const Variable& local, const Variable& whole) {
  me.num_hosts = optional_number(hosts, 1, kMaxWorld);
  if (me.local_world == me.world && !me.num_hosts) me.num_hosts = 1;
  if (!me.num_hosts || !me.local_world) return;
  // One host has all ranks, and several leave some of them elsewhere.
  if ((*me.num_hosts == 1) == (*me.local_world == me.world)) return;
  refuse_environment("the numbers of hosts and of ranks on this one contradict each other",
                     cat(hosts.shown(), ", ", local.shown(), ", ", whole.shown()),
                     cat("correct the one that is wrong, or unset ", hosts.name));
}

void read_master(RankIdentity& me, const Variables& from) {
  if (const auto addr = from.getenv("MASTER_ADDR"); addr && !addr.value->empty()) me.master_addr = *addr.value;
  if (const auto port = from.getenv("MASTER_PORT")) me.master_port = number(port, 1, 65535);
}

void require_master(const RankIdentity& me) {
  if (me.all_on_one_host()) return;
  const std::string ranks = cat(me.world, " ranks (", me.source, "), not known to be on one host");
  if (me.master_addr.empty()) {
    refuse_environment(
        "MASTER_ADDR is not set, and the ranks have nowhere to meet", ranks,
        "set MASTER_ADDR to the host of rank 0 and MASTER_PORT to a free port there, the same for all ranks");
  }
  if (!me.master_port) {
    refuse_environment("MASTER_PORT is not set", cat(ranks, "; MASTER_ADDR='", me.master_addr, "'"),
                       "set MASTER_PORT to a free port of that host, the same for all ranks");
  }
}

bool is_same(const std::optional<std::string>& a, const std::optional<std::string>& b) { return a && b && *a == *b; }

// A launcher below mpirun numbers its own ranks; numbers set by hand have no business to differ.
void require_ranks_of_mpirun(const RankIdentity& me, const Variables& from) {
  const auto rank = from.getenv("OMPI_COMM_WORLD_RANK"), world = from.getenv("OMPI_COMM_WORLD_SIZE");
  if (!is_pair(rank, world, "mpirun")) return;
  if (number(rank, 0, kMaxWorld) == me.rank && number(world, 1, kMaxWorld) == me.world) return;
  refuse_environment("RANK and WORLD_SIZE contradict what mpirun says",
                     cat("RANK='", me.rank, "', WORLD_SIZE='", me.world, "', ", rank.shown(), ", ", world.shown()),
                     "unset RANK and WORLD_SIZE to go by mpirun, or start the ranks with torchrun or weft run");
}

RankIdentity from_torchrun(const Variables& from) {
  RankIdentity me;
  const auto world = from.getenv("WORLD_SIZE"), local_world = from.getenv("LOCAL_WORLD_SIZE");
  const auto elastic_id = from.getenv("TORCHELASTIC_RUN_ID"), weft_id = from.getenv("WEFT_RUN_ID");
  me.source = is_same(elastic_id.value, weft_id.value) ? "weft run" : "torchrun";
  read_place(me, from.getenv("RANK"), world);
  read_local_place(me, from.getenv("LOCAL_RANK"), local_world, world);
  read_num_hosts(me, from.getenv("GROUP_WORLD_SIZE"), local_world, world);
  if (!elastic_id) require_ranks_of_mpirun(me, from);
  // torchrun without a rendezvous of its own calls every run "none".
  const bool is_named = elastic_id && *elastic_id.value != "none";
  me.run_id = is_named ? *elastic_id.value : weft_id.value.value_or("");
  return me;
}

RankIdentity from_open_mpi(const Variables& from) {
  RankIdentity me;
  me.source = "Open MPI";
  const auto world = from.getenv("OMPI_COMM_WORLD_SIZE"), local_world = from.getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  read_place(me, from.getenv("OMPI_COMM_WORLD_RANK"), world);
  read_local_place(me, from.getenv("OMPI_COMM_WORLD_LOCAL_RANK"), local_world, world);
  if (me.local_world == me.world) me.num_hosts = 1;
  me.run_id = from.getenv("PMIX_NAMESPACE").value.value_or("");
  return me;
}

Variable first_set(const Variable& a, const Variable& b) { return a ? a : b; }

// SLURM_NTASKS_PER_NODE is what was asked for, a limit where -n was given too; the lists are what came of it.
std::optional<int> slurm_local_world(const RankIdentity& me, const Variables& from) {
  if (me.num_hosts == 1) return me.world;
  const auto list = first_set(from.getenv("SLURM_STEP_TASKS_PER_NODE"), from.getenv("SLURM_TASKS_PER_NODE"));
  const auto host = optional_number(from.getenv("SLURM_NODEID"), 0, kMaxWorld);
  if (list && host) {
    if (const auto tasks = tasks_on_host(*list.value, *host); tasks && *tasks >= 1 && *tasks <= me.world) return tasks;
  }
  const auto asked = optional_number(from.getenv("SLURM_NTASKS_PER_NODE"), 1, kMaxWorld);
  const bool is_exact = asked && me.num_hosts && int64_t{*asked} * *me.num_hosts == me.world;
  return is_exact ? asked : std::nullopt;
}

// Every rank computes the same, two jobs on one host seldom do, and it is below the ports that Linux hands out itself.
std::optional<int> slurm_port(const Variables& from) {
  const auto job = whole_number(from.getenv("SLURM_JOB_ID").value.value_or(""));
  const auto step = whole_number(from.getenv("SLURM_STEP_ID").value.value_or(""));
  if (!job || *job < 0) return std::nullopt;
  return static_cast<int>(20000 + (*job % 10000 + 101 * (std::max<int64_t>(0, step.value_or(0)) % 10000)) % 10000);
}

void read_slurm_master(RankIdentity& me, const Variables& from) {
  const auto hosts = first_set(from.getenv("SLURM_STEP_NODELIST"), from.getenv("SLURM_JOB_NODELIST"));
  if (me.master_addr.empty() && hosts) me.master_addr = first_host(*hosts.value);
  if (!me.master_port) me.master_port = slurm_port(from);
}

RankIdentity from_slurm(const Variables& from) {
  RankIdentity me;
  me.source = "Slurm";
  const auto rank = from.getenv("SLURM_PROCID"), world = from.getenv("SLURM_NTASKS");
  const auto hosts = first_set(from.getenv("SLURM_NNODES"), from.getenv("SLURM_JOB_NUM_NODES"));
  // The script of sbatch without -n has the one and not the other.
  const bool is_batch_script = !world && number(rank, 0, kMaxWorld) == 0;
  if (!is_batch_script && is_pair(rank, world, "srun")) read_place(me, rank, world);
  me.local_rank = optional_number(from.getenv("SLURM_LOCALID"), 0, kMaxWorld);
  // An allocation may have more hosts than the step has tasks.
  if (const auto num = optional_number(hosts, 1, kMaxWorld)) me.num_hosts = std::min(*num, me.world);
  me.local_world = slurm_local_world(me, from);
  const int limit = me.local_world.value_or(me.world);
  if (me.local_rank.value_or(0) >= limit) {
    refuse_environment("SLURM_LOCALID is not below the number of tasks on this host",
                       cat("SLURM_LOCALID='", *me.local_rank, "', ", limit, " tasks here"),
                       "start the program with srun");
  }
  if (me.local_world == me.world) me.num_hosts = 1;
  const auto job = from.getenv("SLURM_JOB_ID"), step = from.getenv("SLURM_STEP_ID");
  if (job) me.run_id = cat("slurm-", *job.value, ".", step.value.value_or("batch"));
  return me;
}

// LOCAL_RANK by itself says nothing about who this is; beside mpirun's or Slurm's numbers it must repeat them.
void check_stray_local_rank(const RankIdentity& me, const Variables& from) {
  const auto rank = from.getenv("LOCAL_RANK"), world = from.getenv("LOCAL_WORLD_SIZE");
  if (!rank && !world) return;
  const std::string given = cat(rank.shown(), ", ", world.shown());
  if (me.source == "alone") {
    refuse_environment("a local rank without RANK and WORLD_SIZE", given,
                       "set RANK and WORLD_SIZE too, or unset these");
  }
  const bool ranks_differ = rank && me.local_rank && number(rank, 0, kMaxWorld) != *me.local_rank;
  const bool worlds_differ = world && me.local_world && number(world, 1, kMaxWorld) != *me.local_world;
  if (!ranks_differ && !worlds_differ) return;
  refuse_environment(cat("LOCAL_RANK or LOCAL_WORLD_SIZE contradicts what ", me.source, " says"),
                     cat(given, "; ", describe(me)), "unset LOCAL_RANK and LOCAL_WORLD_SIZE");
}

RankIdentity from_first_source(const Variables& from) {
  if (is_pair(from.getenv("RANK"), from.getenv("WORLD_SIZE"), "torchrun")) return from_torchrun(from);
  RankIdentity me;
  if (is_pair(from.getenv("OMPI_COMM_WORLD_RANK"), from.getenv("OMPI_COMM_WORLD_SIZE"), "mpirun")) {
    me = from_open_mpi(from);
  } else if (from.getenv("SLURM_PROCID")) {
    me = from_slurm(from);
  }
  check_stray_local_rank(me, from);
  return me;
}

}  // namespace

RankIdentity read_rank_environment(const Lookup& lookup) {
  const Variables from{lookup};
  RankIdentity me = from_first_source(from);
  read_master(me, from);
  if (me.source == "Slurm") read_slurm_master(me, from);
  require_master(me);
  if (me.world > 1 && me.master_addr.empty()) me.master_addr = "127.0.0.1";
  return me;
}

RankIdentity read_rank_environment() {
  return read_rank_environment([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

std::string describe(const RankIdentity& identity) {
  std::string out = cat("rank ", identity.rank, " of ", identity.world, " (", identity.source, ")");
  if (identity.local_rank) out += cat(", local rank ", *identity.local_rank);
  if (identity.local_rank && identity.local_world) out += cat(" of ", *identity.local_world);
  if (identity.num_hosts.value_or(1) > 1) out += cat(", ", *identity.num_hosts, " hosts");
  if (identity.world > 1) out += cat(", master ", identity.master_addr);
  if (identity.world > 1 && identity.master_port) out += cat(":", *identity.master_port);
  return out;
}

}  // namespace weft::comm
