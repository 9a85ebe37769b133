#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "weft/base/text.h"
#include "weft/monitor/live/run_files_impl.h"
#include "weft/monitor/numbers.h"

namespace weft::detail {
namespace {

// Targets of docs/watching.md.
constexpr double kUtilisation = 0.85, kCommunication = 0.20, kMemory = 0.80;
// A rank that waits for more than this share of its step would gain from better balance or overlap.
constexpr double kWaitingShare = 0.25;
// ranks.json comes about once a second, or once a step where steps are longer.
constexpr double kSilentAfterS = 20, kSilentAfterSteps = 10;

std::optional<double> finite(std::optional<double> value) {
  return value && std::isfinite(*value) ? value : std::nullopt;
}
std::optional<double> number(const NamedNumbers& numbers, std::string_view name) { return finite(numbers.get(name)); }

// Of all ranks that say it, else what the last row says.
std::optional<double> mean_over_ranks(const RunState& state, std::string_view name) {
  double sum = 0;
  int64_t count = 0;
  for (const auto& rank : state.ranks) {
    if (const auto value = number(rank.numbers, name)) {
      sum += *value;
      ++count;
    }
  }
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : number(state.latest, name);
}

struct StepShare {
  std::optional<double> step_ms, wait_ms, busy_ms;
};

StepShare step_share(const RunState& state) {
  StepShare out{.step_ms = mean_over_ranks(state, "step_ms"),
                .wait_ms = mean_over_ranks(state, "exposed_comm_ms"),
                .busy_ms = {}};
  if (!out.step_ms || *out.step_ms <= 0) return {};
  const double idle_ms = out.wait_ms.value_or(0) + mean_over_ranks(state, "data_ms").value_or(0) +
                         mean_over_ranks(state, "checkpoint_ms").value_or(0);
  if (out.wait_ms) out.busy_ms = std::max(0.0, *out.step_ms - idle_ms);
  return out;
}

Verdict utilisation(const RunState& state) {
  Verdict out{.id = "utilisation",
              .label = "Utilisation",
              .target = kUtilisation,
              .wants_more = true,
              .note = "no step has been measured yet"};
  if (const auto percent = mean_over_ranks(state, "gpu_percent")) {
    out.share = *percent / 100;
    out.note = "of the GPUs, mean over ranks";
    return out;
  }
  const StepShare share = step_share(state);
  if (!share.busy_ms) return out;
  out.share = *share.busy_ms / *share.step_ms;
  out.note = "of the step is computing, not waiting for ranks, data or saves";
  return out;
}

Verdict communication(const RunState& state) {
  Verdict out{.id = "communication",
              .label = "Communication",
              .target = kCommunication,
              .note = "no step has been measured yet"};
  const StepShare share = step_share(state);
  if (!share.busy_ms || *share.busy_ms <= 0) return out;
  out.share = *share.wait_ms / *share.busy_ms;
  out.note =
      cat("waits ", fixed_text(*share.wait_ms, 1), " ms for ", fixed_text(*share.busy_ms, 1), " ms of computing");
  return out;
}

std::optional<double> worst_device_share(const RunState& state) {
  std::optional<double> worst;
  const auto look = [&](const NamedNumbers& numbers) {
    const auto total = number(numbers, "device_total_bytes");
    const auto used = numbers.get("device_reserved_bytes") ? number(numbers, "device_reserved_bytes")
                                                           : number(numbers, "device_bytes");
    if (total && used && *total > 0) worst = std::max(worst.value_or(0), *used / *total);
  };
  for (const auto& rank : state.ranks) look(rank.numbers);
  if (!worst) look(state.latest);
  return worst;
}

Verdict memory(const RunState& state, const HostFacts& host) {
  Verdict out{.id = "memory", .label = "Memory", .target = kMemory, .note = "the run does not say how much there is"};
  if (const auto share = worst_device_share(state)) {
    out.share = share;
    out.note = "of the fullest device";
    return out;
  }
  if (number(state.latest, "device_bytes").value_or(0) > 0) return out;
  double rss_bytes = 0;
  for (const auto& rank : state.ranks)
    if (rank.host == host.name) rss_bytes += number(rank.numbers, "rss_bytes").value_or(0);
  if (rss_bytes <= 0 || host.memory_bytes <= 0) return out;
  out.share = rss_bytes / host.memory_bytes;
  out.note = cat("of host ", host.name, ", all its ranks");
  return out;
}

std::string slow_text(const SlowNote& slow) {
  std::string out = slow.percent ? cat(fixed_text(*slow.percent, 1), " % slower") : "slower";
  if (!slow.phase.empty()) out += cat(" in ", slow.phase);
  if (!slow.where.empty()) out += cat(" (", slow.where, ")");
  if (slow.since_step) out += cat(" since step ", *slow.since_step);
  return out;
}

void judge_rank(RankState& rank, const RunState& state) {
  rank.health = RankHealth::kGood;
  rank.why.clear();
  const auto slow = std::ranges::find(state.slow, rank.rank, &SlowNote::rank);
  const auto step_ms = number(rank.numbers, "step_ms"), wait_ms = number(rank.numbers, "exposed_comm_ms");
  if (slow != state.slow.end()) {
    rank.health = RankHealth::kSlow;
    rank.why = slow_text(*slow);
  } else if (step_ms && wait_ms && *step_ms > 0 && *wait_ms / *step_ms > kWaitingShare) {
    rank.health = RankHealth::kWaiting;
    rank.why = cat("waits for others ", fixed_text(100 * *wait_ms / *step_ms, 0), " % of the step");
  }
}

}  // namespace

void judge_ranks(RunState& state, double ranks_unix_s) {
  std::erase_if(state.ranks, [](const RankState& rank) { return rank.numbers.all().empty(); });  // made here before
  if (state.ranks.empty()) return;
  const double step_s = mean_over_ranks(state, "step_ms").value_or(0) * 1e-3;
  const double age_s = ranks_unix_s > 0 ? state.now_unix_s - ranks_unix_s : 0;
  const bool all_silent = state.is_running() && age_s > std::max(kSilentAfterS, kSilentAfterSteps * step_s);
  for (auto& rank : state.ranks) {
    judge_rank(rank, state);
    if (!all_silent) continue;
    rank.health = RankHealth::kSilent;
    rank.why = cat("last heard of ", short_duration_text(age_s), " ago");
  }
  // A world from a broken file must not become a million tiles.
  constexpr int64_t kMostTiles = 4096;
  for (int64_t i = 0; i < std::min(state.world, kMostTiles); ++i) {
    const auto at = std::ranges::lower_bound(state.ranks, i, {}, &RankState::rank);
    if (at == state.ranks.end() || at->rank != i)
      state.ranks.insert(
          at, {.rank = i, .host = "", .health = RankHealth::kSilent, .why = "not in ranks.json", .numbers = {}});
  }
}

std::vector<Verdict> judge(const RunState& state, const HostFacts& host) {
  return {utilisation(state), communication(state), memory(state, host)};
}

}  // namespace weft::detail
