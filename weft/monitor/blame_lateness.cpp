#include <algorithm>

#include "weft/base/quantile.h"
#include "weft/base/text.h"
#include "weft/monitor/blame_impl.h"
#include "weft/monitor/numbers.h"

namespace weft::detail {
namespace {

struct Arrivals {
  std::vector<double> late_ms;
  size_t num_last = 0;
};

// The ranks of each host that called something in the group. Clocks of two hosts cannot be compared.
std::map<std::string, std::vector<int64_t>> ranks_by_host(const Joined& joined, const JoinedGroup& group) {
  std::map<std::string, std::vector<int64_t>> out;
  for (const FlightDump& dump : joined.dumps) {
    if (group.by_rank.contains(dump.owner.rank)) out[dump.host].push_back(dump.owner.rank);
  }
  return out;
}

// Only where all of them came: a rank that is missing would make the others look early.
std::vector<std::pair<int64_t, int64_t>> starts_at(const JoinedGroup& group, const std::vector<int64_t>& ranks,
                                                   uint64_t sequence) {
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const int64_t rank : ranks) {
    const Calls& calls = group.by_rank.at(rank);
    const auto found = calls.find(sequence);
    if (found == calls.end()) return {};
    out.emplace_back(found->second->start_ns, rank);
  }
  std::ranges::sort(out);
  return out;
}

void add_group(const Joined& joined, const JoinedGroup& group, std::map<int64_t, Arrivals>& out) {
  for (const auto& [host, ranks] : ranks_by_host(joined, group)) {
    if (ranks.size() < 2) continue;
    for (const auto& [sequence, call] : group.by_rank.at(ranks.front())) {
      const auto starts = starts_at(group, ranks, sequence);
      if (starts.empty()) continue;
      for (const auto& [start_ns, rank] : starts)
        out[rank].late_ms.push_back(static_cast<double>(start_ns - starts.front().first) * 1e-6);
      ++out[starts.back().second].num_last;
    }
  }
}

// Less than that is noise, or not worth a person's time.
constexpr size_t kMinCollectives = 20;
constexpr double kMinMedianMs = 1, kMinLastShare = 0.6;

std::string advice_for(const BlameLateness& late) {
  return cat("rank ", late.rank, " comes last in ", fixed_text(late.last_share * 100, 0), " % of ",
             late.num_collectives, " collectives, half of the time ", fixed_text(late.median_ms, 1),
             " ms or more after the first: the others wait for it");
}

}  // namespace

void measure_lateness(const Joined& joined, Blame& blame) {
  std::map<int64_t, Arrivals> by_rank;
  for (const JoinedGroup& group : joined.groups) add_group(joined, group, by_rank);
  for (auto& [rank, arrivals] : by_rank) {
    std::ranges::sort(arrivals.late_ms);
    const size_t count = arrivals.late_ms.size();
    const BlameLateness late{.rank = rank,
                             .num_collectives = count,
                             .median_ms = nearest_rank(arrivals.late_ms, 0.5),
                             .p90_ms = nearest_rank(arrivals.late_ms, 0.9),
                             .last_share = static_cast<double>(arrivals.num_last) / static_cast<double>(count)};
    blame.lateness.push_back(late);
    const bool is_slow = count >= kMinCollectives && late.median_ms >= kMinMedianMs && late.last_share >= kMinLastShare;
    if (is_slow) blame.advice.push_back(advice_for(late));
  }
}

}  // namespace weft::detail
