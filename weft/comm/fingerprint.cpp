#include "weft/comm/fingerprint.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/text.h"
#include "weft/comm/call_traits.h"

namespace weft::comm {
namespace {

constexpr size_t kMaxRanksNamed = 8;

// Ranks that called the same, in order.
struct Camp {
  Fingerprint print;
  std::vector<int> ranks;
};

int64_t bytes_in(const at::Tensor& tensor) { return tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0; }

bool has_parts_that_differ(Operation operation) {
  return operation == Operation::kGather || operation == Operation::kScatter || operation == Operation::kAllToAll;
}

int64_t hash_of(const std::vector<int64_t>& counts) {
  return static_cast<int64_t>(hash128(std::as_bytes(std::span(counts))).low);
}

auto compared(const Fingerprint& print) {
  return std::tie(print.operation, print.dtype, print.reduce_op, print.root, print.bytes, print.counts_hash,
                  print.number);
}

std::vector<Camp> camps_of(std::span<const Fingerprint> prints) {
  std::vector<Camp> camps;
  for (size_t rank = 0; rank < prints.size(); ++rank) {
    const auto same = [&](const Camp& camp) { return camp.print.agrees_with(prints[rank]); };
    auto camp = std::find_if(camps.begin(), camps.end(), same);
    if (camp == camps.end()) camp = camps.insert(camps.end(), Camp{prints[rank], {}});
    camp->ranks.push_back(static_cast<int>(rank));
  }
  // Among equals the one with the lowest rank stays first.
  std::stable_sort(camps.begin(), camps.end(),
                   [](const Camp& a, const Camp& b) { return a.ranks.size() > b.ranks.size(); });
  return camps;
}

std::string name_ranks(const std::vector<int>& ranks) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(ranks.size(), kMaxRanksNamed); ++i) names.push_back(cat(ranks[i]));
  const std::string more = ranks.size() > kMaxRanksNamed ? cat(" and ", ranks.size() - kMaxRanksNamed, " more") : "";
  return cat(ranks.size() == 1 ? "rank " : "ranks ", join(names, ", "), more);
}

std::string describe_camps(const std::vector<Camp>& camps) {
  const std::string usual = describe(camps.front().print);
  std::string text = cat(name_ranks(camps.front().ranks), " called ", usual);
  for (size_t i = 1; i < camps.size(); ++i) {
    const std::string own = describe(camps[i].print);
    text += cat("; ", name_ranks(camps[i].ranks), " called ", own);
    if (own != usual) continue;
    text += camps[i].print.number != camps.front().print.number ? cat(" as call ", camps[i].print.number)
                                                                : " with other counts per rank";
  }
  return text;
}

// What goes in comes out: all that the ranks give is what those who take expect.
void require_balance(std::span<const Fingerprint> prints, const std::string& group) {
  const Fingerprint& first = prints.front();
  if (!has_parts_that_differ(first.operation)) return;
  int64_t given = 0, taken = 0;
  for (size_t rank = 0; rank < prints.size(); ++rank) {
    const bool is_root = static_cast<int>(rank) == first.root;
    if (first.operation != Operation::kScatter || is_root) given += prints[rank].input_bytes;
    if (first.operation != Operation::kGather || is_root) taken += prints[rank].output_bytes;
  }
  if (given == taken) return;
  throw Error(ErrorKind::kBug, {.title = cat("the parts of this ", fabric::name_of(first.operation), " do not fit"),
                                .what = cat("the ranks give ", given, " bytes in all and take ", taken),
                                .where = cat("call ", first.number, " of group ", group),
                                .fix = "give each rank the counts that its peers have for it"});
}

}  // namespace

bool Fingerprint::agrees_with(const Fingerprint& other) const { return compared(*this) == compared(other); }

FingerprintWords to_words(const Fingerprint& print) {
  return {static_cast<int64_t>(print.operation),
          static_cast<int64_t>(print.dtype),
          static_cast<int64_t>(print.reduce_op),
          print.root,
          print.bytes,
          print.counts_hash,
          print.number,
          print.input_bytes,
          print.output_bytes};
}

Fingerprint from_words(std::span<const int64_t> words) {
  return {.operation = static_cast<Operation>(words[0]),
          .dtype = static_cast<at::ScalarType>(words[1]),
          .reduce_op = static_cast<ReduceOp>(words[2]),
          .root = static_cast<int>(words[3]),
          .bytes = words[4],
          .counts_hash = words[5],
          .number = words[6],
          .input_bytes = words[7],
          .output_bytes = words[8]};
}

Fingerprint fingerprint_of(const Collective& call, int64_t number) {
  Fingerprint print{.operation = call.operation, .dtype = call.dtype(), .number = number};
  if (uses_reduce_op(call.operation)) print.reduce_op = call.reduce_op;
  if (uses_root(call.operation)) print.root = call.peer;
  if (!has_parts_that_differ(call.operation)) print.bytes = call.bytes();
  if (call.operation == Operation::kAllGather) print.counts_hash = hash_of(call.output_counts);
  if (call.operation == Operation::kReduceScatter) print.counts_hash = hash_of(call.input_counts);
  print.input_bytes = bytes_in(call.input);
  print.output_bytes = bytes_in(call.output);
  return print;
}

std::string describe(const Fingerprint& print) {
  if (print.operation == Operation::kBarrier) return "barrier";
  const int64_t bytes = std::max({print.bytes, print.input_bytes, print.output_bytes});
  std::string text = cat(fabric::name_of(print.operation), " of ", bytes, " bytes (", c10::toString(print.dtype));
  if (uses_reduce_op(print.operation)) text += cat(", ", reduce_op_name(print.reduce_op));
  if (uses_root(print.operation)) text += cat(", root ", print.root);
  return text + ")";
}

void require_agreement(std::span<const Fingerprint> prints, const std::string& group) {
  const std::vector<Camp> camps = camps_of(prints);
  if (camps.size() == 1) return require_balance(prints, group);
  throw Error(ErrorKind::kBug, {.title = "the ranks made different calls",
                                .what = describe_camps(camps),
                                .where = cat("call ", camps.front().print.number, " of group ", group),
                                .fix = "look for a branch, a loop count or a size that is not the same in every rank"});
}

}  // namespace weft::comm
