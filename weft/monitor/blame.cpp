#include "weft/monitor/blame.h"

#include <algorithm>
#include <set>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/blame_impl.h"
#include "weft/monitor/flight_dump.h"

namespace weft {
namespace detail {

uint64_t JoinedGroup::last_reached(int64_t rank) const {
  const auto found = by_rank.find(rank);
  return found == by_rank.end() || found->second.empty() ? 0 : found->second.rbegin()->first;
}

bool is_unfinished(const FlightEntry& entry) { return entry.state != FlightState::kFinished; }

std::string rank_words(const std::vector<int64_t>& ranks) {
  std::string list;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    // A pair reads better as two numbers.
    const bool is_range = end > i + 1;
    list += cat(list.empty() ? "" : ", ", ranks[i]);
    if (is_range) list += cat("-", ranks[end]);
    i = is_range ? end + 1 : i + 1;
  }
  return cat(ranks.size() == 1 ? "rank " : "ranks ", list);
}

std::string call_words(const FlightEntry& entry) {
  std::vector<std::string> notes;
  if (!entry.dtype.empty()) notes.push_back(entry.dtype);
  if (!entry.reduce_op.empty()) notes.push_back(entry.reduce_op);
  if (entry.peer >= 0) notes.push_back(cat("root ", entry.peer));
  const std::string size = entry.operation == "barrier" ? "" : cat(" of ", format_bytes(entry.bytes));
  return cat(entry.operation, size, notes.empty() ? "" : cat(" (", join(notes, ", "), ")"));
}

std::string numbered_words(const FlightEntry& entry) { return cat(entry.operation, " #", entry.sequence); }

Joined join_dumps(const std::vector<FlightDump>& dumps) {
  std::map<std::string, JoinedGroup> groups;
  std::map<std::string, std::set<int64_t>> members;
  std::set<int64_t> missing;
  for (int64_t rank = 0; rank < dumps.front().owner.world; ++rank) missing.insert(rank);
  for (const FlightDump& dump : dumps) {
    missing.erase(dump.owner.rank);
    for (const auto& [name, ranks] : dump.groups) members[name].insert(ranks.begin(), ranks.end());
    for (const FlightEntry& entry : dump.entries) {
      if (is_point_to_point(entry)) continue;
      groups[entry.group].by_rank[dump.owner.rank][entry.sequence] = &entry;
      members[entry.group].insert(dump.owner.rank);
    }
  }
  Joined out{.dumps = dumps, .groups = {}, .missing = {missing.begin(), missing.end()}};
  for (auto& [name, group] : groups) {
    group.name = name;
    group.members.assign(members[name].begin(), members[name].end());
    out.groups.push_back(std::move(group));
  }
  return out;
}

}  // namespace detail

namespace {

using detail::find_mismatches;
using detail::find_waits;
using detail::is_unfinished;
using detail::join_dumps;
using detail::Joined;
using detail::measure_lateness;
using detail::rank_words;

// Newest end, oldest start: by the clock of the rank itself, so it can be compared.
BlameRank standing_of(const FlightDump& dump) {
  BlameRank out{.rank = dump.owner.rank, .has_dump = true, .host = dump.host, .reason = dump.reason, .pid = dump.pid};
  for (const FlightEntry& entry : dump.entries) {
    if (is_unfinished(entry)) {
      if (!out.waits_in || entry.start_ns < out.waits_in->start_ns) out.waits_in = entry;
    } else if (!out.last_finished || entry.end_ns >= out.last_finished->end_ns) {
      out.last_finished = entry;
    }
  }
  return out;
}

std::vector<BlameRank> standings(const Joined& joined) {
  std::vector<BlameRank> out;
  for (const FlightDump& dump : joined.dumps) out.push_back(standing_of(dump));
  for (const int64_t rank : joined.missing) out.push_back({.rank = rank});
  std::ranges::sort(out, {}, &BlameRank::rank);
  return out;
}

// What the others died of: one line for each reason, with the ranks that gave it.
std::vector<std::string> reasons_of(const std::vector<FlightDump>& dumps) {
  std::map<std::string, std::vector<int64_t>> by_reason;
  for (const FlightDump& dump : dumps) {
    if (!dump.reason.empty()) by_reason[dump.reason].push_back(dump.owner.rank);
  }
  std::vector<std::string> out;
  for (const auto& [reason, ranks] : by_reason)
    out.push_back(cat(rank_words(ranks), ranks.size() == 1 ? " says: " : " say: ", reason));
  return out;
}

}  // namespace

std::string_view name_of(BlameKind kind) {
  switch (kind) {
    case BlameKind::kMismatch: return "mismatch";
    case BlameKind::kNoDump: return "no_dump";
    case BlameKind::kNeverReached: return "never_reached";
    case BlameKind::kOrder: return "order";
    case BlameKind::kUnfinished: return "unfinished";
    case BlameKind::kNone: return "none";
  }
  return "";
}

Blame find_blame(const std::vector<FlightDump>& dumps) {
  const Joined joined = join_dumps(dumps);
  Blame out{.run_id = dumps.front().owner.run_id, .world = dumps.front().owner.world};
  out.ranks = standings(joined);
  out.findings = find_mismatches(joined);
  std::ranges::move(find_waits(joined), std::back_inserter(out.findings));
  std::ranges::stable_sort(out.findings, {}, &BlameFinding::kind);
  out.verdict.text = "nothing differs between the dumps";
  if (!out.findings.empty()) {
    std::ranges::copy(reasons_of(dumps), std::back_inserter(out.findings.front().details));
    out.verdict = out.findings.front();
  }
  measure_lateness(joined, out);
  return out;
}

}  // namespace weft
