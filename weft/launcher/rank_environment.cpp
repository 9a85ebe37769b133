#include "weft/launcher/rank_environment.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/launcher/copies_folder.h"

namespace weft::launcher {
namespace {

constexpr size_t kMaxCpuSets = 64;  // 65536 CPUs, more than Linux can be built for

void add_place(Variables& out, const LaunchSpec& spec, int local_rank) {
  const std::string rank = cat(spec.rank_of(local_rank)), world = cat(spec.world());
  out["RANK"] = out["ROLE_RANK"] = rank;
  out["WORLD_SIZE"] = out["ROLE_WORLD_SIZE"] = world;
  out["ROLE_NAME"] = "default";
  out["LOCAL_RANK"] = cat(local_rank);
  out["LOCAL_WORLD_SIZE"] = cat(spec.num_local);
  out["GROUP_RANK"] = out["NODE_RANK"] = cat(spec.host_rank);
  out["GROUP_WORLD_SIZE"] = cat(spec.num_hosts);
}

void add_attempt(Variables& out, const LaunchSpec& spec, int attempt) {
  out["TORCHELASTIC_RESTART_COUNT"] = cat(attempt);
  out["TORCHELASTIC_MAX_RESTARTS"] = cat(spec.max_restarts);
  // An outer run's word is not about this one.
  out["WEFT_RESUME"] = spec.resume && attempt > 0 ? std::optional<std::string>("1") : std::nullopt;
  const std::string copies = copies_folder(spec);
  out["WEFT_BUDDY_DIR"] = copies.empty() ? std::nullopt : std::optional(copies);
  out["TORCHELASTIC_RUN_ID"] = out["WEFT_RUN_ID"] = spec.run_id;
  // Left over from an outer torchrun it would tell rank 0 not to open the store, and all ranks would wait for ever.
  out["TORCHELASTIC_USE_AGENT_STORE"] = std::nullopt;
}

void add_threads(Variables& out, const LaunchSpec& spec, int num_cpus) {
  const char* given = std::getenv("OMP_NUM_THREADS");
  if (spec.threads) out["OMP_NUM_THREADS"] = cat(*spec.threads);
  if (spec.threads || (given != nullptr && *given != '\0')) return;
  // Every library would otherwise start a thread per core in every rank, and they would spend their time switching.
  out["OMP_NUM_THREADS"] = cat(std::max(1, num_cpus / spec.num_local));
}

void add_memory(Variables& out) {
  if (std::getenv(kMemoryVariable) == nullptr) out[kMemoryVariable] = kMemoryKept;
}

}  // namespace

Variables rank_environment(const LaunchSpec& spec, int local_rank, int attempt, int port, int num_cpus) {
  Variables out;
  add_place(out, spec, local_rank);
  add_attempt(out, spec, attempt);
  add_threads(out, spec, num_cpus);
  add_memory(out);
  out["MASTER_ADDR"] = spec.master_addr;
  out["MASTER_PORT"] = cat(port);
  return out;
}

std::vector<int> allowed_cpus() {
  std::vector<cpu_set_t> mask(1);
  // EINVAL: the kernel counts more CPUs than the mask has bits.
  while (::sched_getaffinity(0, mask.size() * sizeof(cpu_set_t), mask.data()) != 0) {
    if (errno != EINVAL || mask.size() >= kMaxCpuSets) throw IoError("learn which CPUs may be used", "", errno);
    mask.resize(mask.size() * 2);
  }
  const size_t bytes = mask.size() * sizeof(cpu_set_t);
  std::vector<int> cpus;
  for (size_t cpu = 0; cpu < bytes * 8; ++cpu) {
    if (CPU_ISSET_S(cpu, bytes, mask.data())) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

std::vector<int> cpus_of_rank(const std::vector<int>& cpus, int num_ranks, int local_rank) {
  const auto ranks = static_cast<size_t>(num_ranks), i = static_cast<size_t>(local_rank);
  const auto at = [&](size_t index) { return cpus.begin() + static_cast<std::ptrdiff_t>(index * cpus.size() / ranks); };
  return {at(i), at(i + 1)};
}

}  // namespace weft::launcher
