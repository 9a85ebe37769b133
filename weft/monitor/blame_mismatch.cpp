#include <algorithm>
#include <tuple>

#include "weft/base/text.h"
#include "weft/monitor/blame_impl.h"
#include "weft/monitor/numbers.h"

namespace weft::detail {
namespace {

// In the others a rank's bytes depend on its place: the root of a gather has more, a rank of all_to_all any number.
bool has_equal_bytes(const FlightEntry& entry) {
  constexpr std::string_view kOperations[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce"};
  return std::ranges::find(kOperations, entry.operation) != std::ranges::end(kOperations);
}

// What all ranks must agree on.
using Signature = std::tuple<std::string, uint64_t, std::string, std::string, int64_t>;

Signature signature_of(const FlightEntry& entry) {
  return {entry.operation, has_equal_bytes(entry) ? entry.bytes : 0, entry.dtype, entry.reduce_op, entry.peer};
}

struct Camp {
  const FlightEntry* call = nullptr;
  std::vector<int64_t> ranks;
};

// The ranks by what they called under one number, the largest camp first.
std::vector<Camp> camps_at(const JoinedGroup& group, uint64_t sequence) {
  std::map<Signature, Camp> by_signature;
  for (const auto& [rank, calls] : group.by_rank) {
    const auto found = calls.find(sequence);
    if (found == calls.end()) continue;
    Camp& camp = by_signature[signature_of(*found->second)];
    camp.call = found->second;
    camp.ranks.push_back(rank);
  }
  std::vector<Camp> out;
  for (auto& [signature, camp] : by_signature) out.push_back(std::move(camp));
  std::ranges::stable_sort(out, std::greater<>(), [](const Camp& camp) { return camp.ranks.size(); });
  return out;
}

std::optional<uint64_t> first_difference(const JoinedGroup& group) {
  std::map<uint64_t, Signature> seen;
  std::optional<uint64_t> first;
  for (const auto& [rank, calls] : group.by_rank) {
    for (const auto& [sequence, call] : calls) {
      const auto [known, is_new] = seen.emplace(sequence, signature_of(*call));
      if (!is_new && known->second != signature_of(*call)) first = std::min(first.value_or(sequence), sequence);
    }
  }
  return first;
}

// Two calls that differ by a few bytes must not look the same.
std::string exact_words(const FlightEntry& entry) {
  const std::string words = call_words(entry);
  return has_equal_bytes(entry) ? cat(words, ", ", grouped_text(static_cast<int64_t>(entry.bytes)), " bytes") : words;
}

const FlightEntry* call_at(const JoinedGroup& group, int64_t rank, uint64_t sequence) {
  const auto calls = group.by_rank.find(rank);
  if (calls == group.by_rank.end()) return nullptr;
  const auto found = calls->second.find(sequence);
  return found == calls->second.end() ? nullptr : found->second;
}

// Whether what `ahead` called from `sequence` on is what `behind` called one later, as far as both go.
bool is_shifted(const JoinedGroup& group, uint64_t sequence, int64_t ahead, int64_t behind) {
  constexpr uint64_t kLook = 4;
  size_t num_equal = 0;
  for (uint64_t i = sequence; i < sequence + kLook; ++i) {
    const FlightEntry* a = call_at(group, ahead, i);
    const FlightEntry* b = call_at(group, behind, i + 1);
    if (a == nullptr || b == nullptr) break;
    if (signature_of(*a) != signature_of(*b)) return false;
    ++num_equal;
  }
  return num_equal > 0;
}

void add_guess(const JoinedGroup& group, uint64_t sequence, const Camp& odd, const Camp& main, BlameFinding& out) {
  const std::string who = rank_words(odd.ranks);
  if (is_shifted(group, sequence, odd.ranks.front(), main.ranks.front())) {
    out.details.push_back(cat("it looks as if ", who, " left out ", call_words(*main.call),
                              ": its later calls are those of the others, one number early"));
  } else if (is_shifted(group, sequence, main.ranks.front(), odd.ranks.front())) {
    out.details.push_back(cat("it looks as if ", who, " called ", call_words(*odd.call),
                              " once too often: its later calls are those of the others, one number late"));
  }
}

BlameFinding finding_at(const JoinedGroup& group, uint64_t sequence) {
  const std::vector<Camp> camps = camps_at(group, sequence);
  const Camp& main = camps.front();
  BlameFinding out{.kind = BlameKind::kMismatch, .group = group.name, .sequence = sequence};
  out.operation = main.call->operation;
  const bool has_majority = main.ranks.size() > camps[1].ranks.size();
  for (const Camp& camp : camps) {
    out.details.push_back(cat(rank_words(camp.ranks), " called ", exact_words(*camp.call)));
    if (has_majority && &camp == &main) continue;
    out.ranks.insert(out.ranks.end(), camp.ranks.begin(), camp.ranks.end());
  }
  std::ranges::sort(out.ranks);
  const std::string where = cat("#", sequence, " of group ", group.name);
  if (!has_majority) {
    out.text = cat("the ranks do not agree on ", where, ", and no side is the larger one");
  } else if (camps.size() > 2) {
    out.text = cat(rank_words(out.ranks), " called something else than the others at ", where);
  } else {
    out.text = cat(rank_words(out.ranks), " called ", exact_words(*camps[1].call), " at ", where, "; ",
                   rank_words(main.ranks), " called ", exact_words(*main.call));
    out.details.clear();
  }
  if (camps.size() == 2) add_guess(group, sequence, camps[1], main, out);
  return out;
}

}  // namespace

std::vector<BlameFinding> find_mismatches(const Joined& joined) {
  // Of several groups the one where it went wrong first.
  std::multimap<int64_t, BlameFinding> by_time;
  for (const JoinedGroup& group : joined.groups) {
    const auto sequence = first_difference(group);
    if (!sequence) continue;
    int64_t start_ns = INT64_MAX;
    for (const Camp& camp : camps_at(group, *sequence)) start_ns = std::min(start_ns, camp.call->start_ns);
    by_time.emplace(start_ns, finding_at(group, *sequence));
  }
  std::vector<BlameFinding> out;
  for (auto& [start_ns, finding] : by_time) out.push_back(std::move(finding));
  return out;
}

}  // namespace weft::detail
