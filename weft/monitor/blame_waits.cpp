#include <algorithm>
#include <ranges>
#include <set>

#include "weft/base/text.h"
#include "weft/monitor/blame_impl.h"

namespace weft::detail {
namespace {

// `waiter` has called `call` and not finished it; `late` belongs to its group and has not come that far.
struct Wait {
  int64_t waiter = 0, late = 0;
  const JoinedGroup* group = nullptr;
  const FlightEntry* call = nullptr;
};

// Of several calls that wait for one rank only the first: the others follow from it.
std::vector<Wait> waits_of(const JoinedGroup& group) {
  std::vector<Wait> out;
  for (const auto& [waiter, calls] : group.by_rank) {
    std::map<uint64_t, const FlightEntry*> unfinished;
    for (const auto& [sequence, call] : calls) {
      if (is_unfinished(*call)) unfinished.emplace(sequence, call);
    }
    for (const int64_t rank : group.members) {
      const auto first = unfinished.upper_bound(group.last_reached(rank));
      if (rank != waiter && first != unfinished.end()) out.push_back({waiter, rank, &group, first->second});
    }
  }
  return out;
}

std::vector<Wait> all_waits(const Joined& joined) {
  std::vector<Wait> out;
  for (const JoinedGroup& group : joined.groups) std::ranges::move(waits_of(group), std::back_inserter(out));
  return out;
}

// The first collective that somebody waits in for this rank.
const Wait* first_wait_for(const std::vector<Wait>& waits, int64_t late) {
  const Wait* first = nullptr;
  for (const Wait& wait : waits) {
    if (wait.late != late) continue;
    const bool is_earlier =
        first == nullptr || (wait.group == first->group ? wait.call->sequence < first->call->sequence
                                                        : wait.call->start_ns < first->call->start_ns);
    if (is_earlier) first = &wait;
  }
  return first;
}

std::vector<int64_t> waiters_in(const std::vector<Wait>& waits, const Wait& in) {
  std::set<int64_t> ranks;
  for (const Wait& wait : waits) {
    if (wait.group == in.group && wait.call->sequence == in.call->sequence) ranks.insert(wait.waiter);
  }
  return {ranks.begin(), ranks.end()};
}

void take_collective(const Wait& wait, BlameFinding& out) {
  out.group = wait.group->name;
  out.sequence = wait.call->sequence;
  out.operation = wait.call->operation;
}

std::string wait_words(const std::vector<Wait>& waits, const Wait& in) {
  const auto waiters = waiters_in(waits, in);
  return cat(rank_words(waiters), waiters.size() == 1 ? " waits" : " wait", " in ", numbered_words(*in.call),
             " of group ", in.group->name, ": ", call_words(*in.call));
}

BlameFinding no_dump(const Joined& joined, const std::vector<Wait>& waits) {
  BlameFinding out{.kind = BlameKind::kNoDump, .ranks = joined.missing};
  out.text = cat("no dump from ", rank_words(joined.missing),
                 joined.missing.size() == 1 ? ": it died, or was killed before it could write one"
                                            : ": they died, or were killed before they could write one");
  const Wait* first = nullptr;
  for (const int64_t rank : joined.missing) {
    if (first == nullptr) first = first_wait_for(waits, rank);
  }
  if (first == nullptr) return out;
  take_collective(*first, out);
  out.details.push_back(wait_words(waits, *first));
  return out;
}

std::string progress_words(const Wait& wait) {
  const auto calls = wait.group->by_rank.find(wait.late);
  if (calls == wait.group->by_rank.end()) return cat("rank ", wait.late, " called nothing in group ", wait.group->name);
  for (const auto& [sequence, call] : std::views::reverse(calls->second)) {
    if (is_unfinished(*call)) continue;
    return cat("rank ", wait.late, " last finished ", numbered_words(*call), " there: ", call_words(*call));
  }
  return cat("rank ", wait.late, " finished nothing there");
}

// Ranks that others wait for and that wait for nobody, with the wait that shows it.
std::vector<const Wait*> roots(const Joined& joined, const std::vector<Wait>& waits) {
  std::set<int64_t> waiters, late;
  for (const Wait& wait : waits) {
    waiters.insert(wait.waiter);
    late.insert(wait.late);
  }
  std::vector<const Wait*> out;
  for (const int64_t rank : late) {
    const bool is_missing = std::ranges::binary_search(joined.missing, rank);
    if (!is_missing && !waiters.contains(rank)) out.push_back(first_wait_for(waits, rank));
  }
  return out;
}

BlameFinding late_in(const std::vector<Wait>& waits, const std::vector<const Wait*>& same) {
  constexpr size_t kMaxDetails = 8;
  BlameFinding out{.kind = BlameKind::kNeverReached};
  take_collective(*same.front(), out);
  for (const Wait* wait : same) {
    out.ranks.push_back(wait->late);
    if (out.details.size() < kMaxDetails) out.details.push_back(progress_words(*wait));
  }
  const auto waiters = waiters_in(waits, *same.front());
  out.text = cat(rank_words(out.ranks), " never reached ", numbered_words(*same.front()->call), " of group ", out.group,
                 "; ", rank_words(waiters), waiters.size() == 1 ? " waits there" : " wait there");
  return out;
}

std::vector<BlameFinding> never_reached(const Joined& joined, const std::vector<Wait>& waits) {
  std::map<std::pair<std::string, uint64_t>, std::vector<const Wait*>> by_collective;
  for (const Wait* wait : roots(joined, waits))
    by_collective[{wait->group->name, wait->call->sequence}].push_back(wait);
  std::vector<BlameFinding> out;
  for (const auto& [collective, same] : by_collective) out.push_back(late_in(waits, same));
  return out;
}

// Everyone who is waited for waits too, and all have dumps: follow the waits until a rank comes round again.
std::vector<BlameFinding> circles(const Joined& joined, const std::vector<Wait>& waits) {
  if (waits.empty() || !joined.missing.empty()) return {};
  std::vector<const Wait*> path;
  std::set<int64_t> passed;
  int64_t rank = waits.front().waiter;
  while (passed.insert(rank).second) {
    const auto next = std::ranges::find(waits, rank, &Wait::waiter);
    if (next == waits.end()) return {};
    path.push_back(&*next);
    rank = next->late;
  }
  path.erase(path.begin(), std::ranges::find(path, rank, [](const Wait* wait) { return wait->waiter; }));
  std::ranges::rotate(path, std::ranges::min_element(path, {}, [](const Wait* wait) { return wait->waiter; }));
  BlameFinding out{.kind = BlameKind::kOrder};
  take_collective(*path.front(), out);
  std::vector<std::string> steps;
  for (const Wait* wait : path) {
    out.ranks.push_back(wait->waiter);
    steps.push_back(cat("rank ", wait->waiter, " in ", numbered_words(*wait->call), " of group ", wait->group->name,
                        " for rank ", wait->late));
  }
  std::ranges::sort(out.ranks);
  out.text = cat("the ranks wait for each other: ", join(steps, ", "));
  out.details.emplace_back("they call the collectives of these groups in different orders");
  return {out};
}

std::optional<BlameFinding> unfinished_in(const JoinedGroup& group) {
  std::map<uint64_t, std::vector<int64_t>> by_sequence;
  for (const auto& [rank, calls] : group.by_rank) {
    for (const auto& [sequence, call] : calls) {
      if (is_unfinished(*call)) by_sequence[sequence].push_back(rank);
    }
  }
  if (by_sequence.empty()) return std::nullopt;
  const auto& [sequence, ranks] = *by_sequence.begin();
  const FlightEntry& call = *group.by_rank.at(ranks.front()).at(sequence);
  BlameFinding out{.kind = BlameKind::kUnfinished, .group = group.name, .sequence = sequence};
  out.operation = call.operation;
  const bool is_all = ranks.size() == group.by_rank.size();
  if (!is_all) out.ranks = ranks;
  out.text = cat("all ranks reached ", numbered_words(call), " of group ", group.name, "; ",
                 is_all ? "none" : rank_words(ranks), is_all ? " has finished it" : " did not finish it");
  out.details.push_back(cat("it is ", call_words(call), call.transport.empty() ? "" : cat(" over ", call.transport),
                            ": look at that transport"));
  return out;
}

}  // namespace

std::vector<BlameFinding> find_waits(const Joined& joined) {
  const std::vector<Wait> waits = all_waits(joined);
  std::vector<BlameFinding> out;
  if (!joined.missing.empty()) out.push_back(no_dump(joined, waits));
  std::ranges::move(never_reached(joined, waits), std::back_inserter(out));
  if (out.empty()) out = circles(joined, waits);
  if (!out.empty() || !waits.empty()) return out;
  for (const JoinedGroup& group : joined.groups) {
    if (auto finding = unfinished_in(group)) out.push_back(std::move(*finding));
  }
  return out;
}

}  // namespace weft::detail
