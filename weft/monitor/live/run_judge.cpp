#include <algorithm>
#include <array>
#include <map>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/live/run_files_impl.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/run_summary.h"

namespace weft::detail {
namespace {

// A rank that waits for more than this share of its step would gain from better balance or overlap.
constexpr double kWaitingShare = 0.25;
// ranks.json comes about once a second, or once a step where steps are longer.
constexpr double kSilentAfterS = 20, kSilentAfterSteps = 10;

// Of all ranks that say it, else what the last row says.
std::optional<double> mean_over_ranks(const LiveState& state, std::string_view name) {
  double sum = 0;
  int64_t count = 0;
  for (const auto& rank : state.ranks) {
    if (const auto value = finite_in(rank.numbers, name)) {
      sum += *value;
      ++count;
    }
  }
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : finite_in(state.latest, name);
}

// The report's own arithmetic, over the means of the ranks: the page and the report must not disagree about a run.
struct StepShares {
  double compute_ms = 0, wait_ms = 0, all_ms = 0;
};
std::optional<StepShares> step_shares(const LiveState& state) {
  const auto parts = parts_from([&](std::string_view name) { return mean_over_ranks(state, name); });
  if (!parts) return std::nullopt;
  const auto ms = [&](StepPart part) { return (*parts)[static_cast<size_t>(part)]; };
  StepShares out{.compute_ms = ms(StepPart::kForward) + ms(StepPart::kBackward) + ms(StepPart::kOptimizer),
                 .wait_ms = ms(StepPart::kExposedComm)};
  for (const double part_ms : *parts) out.all_ms += part_ms;
  return out;
}

bool is_on_gpu(const LiveState& state) {
  for (const auto& [name, text] : state.words)
    if (name == "device") return text == "cuda";
  return mean_over_ranks(state, "gpu_percent").has_value();
}

Verdict utilisation(const LiveState& state) {
  Verdict out{.id = "utilisation",
              .label = "Utilisation",
              .target = kTargetUtilisation,
              .wants_more = true,
              .note = "no counter was read"};
  const auto gpu = mean_over_ranks(state, "gpu_percent"), cpu = mean_over_ranks(state, "cpu_percent");
  const double threads = finite_in(state.facts, "threads").value_or(0);
  if (is_on_gpu(state)) {
    if (!gpu) return out;
    out.share = *gpu / 100;
    out.note = "busy time of the GPUs, mean over ranks";
  } else if (cpu && threads > 0) {
    out.share = std::min(1.0, *cpu / 100 / threads);
    out.note = cat("processor time of a rank over its ", threads, threads == 1 ? " thread" : " threads");
  } else if (const auto shares = step_shares(state); shares && shares->all_ms > 0) {
    out.share = shares->compute_ms / shares->all_ms;
    out.note = "forward, backward and optimizer in the step's time";
  }
  return out;
}

Verdict communication(const LiveState& state) {
  Verdict out{.id = "communication",
              .label = "Communication",
              .target = kTargetCommunication,
              .note = "the parts of the steps were not recorded"};
  const auto shares = step_shares(state);
  if (!shares || shares->compute_ms <= 0) return out;
  out.share = shares->wait_ms / shares->compute_ms;
  out.note =
      cat("waits ", fixed_text(shares->wait_ms, 1), " ms for ", fixed_text(shares->compute_ms, 1), " ms of computing");
  return out;
}

// The most so far, as the report judges it; of runs that tell no peaks, what is in use.
double held_bytes(const NamedNumbers& numbers, bool on_gpu) {
  using Names = std::array<std::string_view, 3>;
  const Names names = on_gpu ? Names{"peak_device_reserved_bytes", "device_reserved_bytes", "device_bytes"}
                             : Names{"host_bytes", "peak_rss_bytes", "rss_bytes"};
  for (const std::string_view name : names) {
    if (const auto bytes = finite_in(numbers, name)) return *bytes;
  }
  return 0;
}

// Of the fullest device, or of the ranks of the fullest host together.
double most_used_bytes(const LiveState& state, bool on_gpu) {
  std::map<std::string, double> by_host;
  double most = 0;
  for (const auto& rank : state.ranks) {
    const double held = held_bytes(rank.numbers, on_gpu);
    double& host = by_host[rank.host];
    host += held;
    most = std::max(most, on_gpu ? held : host);
  }
  return most > 0 ? most : held_bytes(state.latest, on_gpu);
}

Verdict memory(const LiveState& state, const HostFacts& host) {
  const bool on_gpu = is_on_gpu(state);
  Verdict out{
      .id = "memory", .label = "Memory", .target = kTargetMemory, .note = "the run does not say how much there is"};
  const double used_bytes = most_used_bytes(state, on_gpu);
  const bool is_here = !state.ranks.empty() &&
                       std::ranges::all_of(state.ranks, [&](const RankState& rank) { return rank.host == host.name; });
  const double size_bytes = finite_in(state.facts, on_gpu ? "device_memory_bytes" : "host_memory_bytes")
                                .value_or(!on_gpu && is_here ? host.memory_bytes : 0);
  if (used_bytes <= 0 || size_bytes <= 0) return out;
  const auto text = [](double bytes) { return format_bytes(static_cast<uint64_t>(std::min(bytes, 1e18))); };
  out.share = used_bytes / size_bytes;
  out.note = cat(text(used_bytes), " of ", text(size_bytes), on_gpu ? " on the fullest device" : " of the host");
  return out;
}

std::string slow_text(const SlowNote& slow) {
  std::string out = slow.percent ? cat(fixed_text(*slow.percent, 1), " % slower") : "slower";
  if (!slow.phase.empty()) out += cat(slow.phase == "processor" ? " by its " : " in ", slow.phase);
  if (!slow.where.empty()) out += cat(" (", slow.where, ")");
  if (slow.since_step) out += cat(" since step ", *slow.since_step);
  return out;
}

void judge_rank(RankState& rank, const LiveState& state) {
  rank.health = RankHealth::kGood;
  rank.why.clear();
  const auto slow = std::ranges::find(state.slow, rank.rank, &SlowNote::rank);
  const auto step_ms = finite_in(rank.numbers, "step_ms"), wait_ms = finite_in(rank.numbers, "exposed_comm_ms");
  if (slow != state.slow.end()) {
    rank.health = RankHealth::kSlow;
    rank.why = slow_text(*slow);
  } else if (step_ms && wait_ms && *step_ms > 0 && *wait_ms / *step_ms > kWaitingShare) {
    rank.health = RankHealth::kWaiting;
    rank.why = cat("waits for others ", fixed_text(100 * *wait_ms / *step_ms, 0), " % of the step");
  }
}

}  // namespace

std::optional<PartTimes> parts_from(const std::function<std::optional<double>(std::string_view)>& value_of) {
  RunRow row;
  for (const auto& [name, field] : {std::pair{"step_ms", &RunRow::step_ms},
                                    {"data_ms", &RunRow::data_ms},
                                    {"forward_ms", &RunRow::forward_ms},
                                    {"backward_ms", &RunRow::backward_ms},
                                    {"optimizer_ms", &RunRow::optimizer_ms},
                                    {"exposed_comm_ms", &RunRow::exposed_comm_ms},
                                    {"checkpoint_ms", &RunRow::checkpoint_ms},
                                    {"other_ms", &RunRow::other_ms}})
    row.*field = value_of(name).value_or(kUnknown);
  return parts_of(row);
}

void judge_ranks(LiveState& state, double ranks_unix_s) {
  std::erase_if(state.ranks, [](const RankState& rank) { return rank.numbers.all().empty(); });  // made here before
  if (state.ranks.empty()) return;
  const double step_s = mean_over_ranks(state, "step_ms").value_or(0) * 1e-3;
  const double age_s = ranks_unix_s > 0 ? state.now_unix_s - ranks_unix_s : 0;
  const bool all_silent = state.is_running() && age_s > std::max(kSilentAfterS, kSilentAfterSteps * step_s);
  for (auto& rank : state.ranks) {
    judge_rank(rank, state);
    if (!all_silent) continue;
    rank.health = RankHealth::kSilent;
    rank.why = cat("not heard of since ", clock_text(ranks_unix_s));
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

std::vector<Verdict> judge(const LiveState& state, const HostFacts& host) {
  return {utilisation(state), communication(state), memory(state, host)};
}

}  // namespace weft::detail
