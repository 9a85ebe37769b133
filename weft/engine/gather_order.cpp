#include "weft/engine/gather_order.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <span>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/text.h"
#include "weft/comm/peer_lost.h"

namespace weft::engine {
namespace {

constexpr int kEndOfStep = -1;
constexpr const char* kFix =
    "give those that ranks choose from to weft::gather_together() before initialize(), or run all ranks on one host";

std::vector<int64_t> values_of(const at::Tensor& on_host) {
  const auto* values = on_host.const_data_ptr<int64_t>();
  return {values, values + on_host.numel()};
}

int64_t hash_of(const std::vector<int64_t>& list) {
  return static_cast<int64_t>(hash128(std::as_bytes(std::span(list))).low);
}

}  // namespace

GatherOrder::GatherOrder(const comm::Group& ranks, comm::Group* on_host, NameOf name_of)
    : ranks_(ranks), on_host_(on_host), name_of_(std::move(name_of)) {}

GatherOrder::Tag GatherOrder::begin(int unit, comm::Group& lane) {
  if (on_host_ != nullptr) {
    gathered_.push_back(unit);
    return {};
  }
  Tag out{.of_ranks = at::empty({ranks_.world()}, at::kLong), .work = {}};
  comm::Collective call = comm::all_gather(at::tensor({static_cast<int64_t>(unit)}, at::kLong), out.of_ranks);
  call.purpose = text_of(unit);
  out.work = lane.start(std::move(call));
  return out;
}

void GatherOrder::check(const Tag& tag, int unit) {
  if (!tag.of_ranks.defined()) return;
  tag.work.wait();
  const auto theirs = values_of(tag.of_ranks);
  for (size_t rank = 0; rank < theirs.size(); ++rank) {
    if (theirs[rank] != unit) refuse(static_cast<int>(rank), unit, theirs[rank]);
  }
}

void GatherOrder::end_step(comm::Group& lane) {
  if (on_host_ != nullptr) return compare_lists(/*has_failed=*/false);
  check(begin(kEndOfStep, lane), kEndOfStep);
}

std::string GatherOrder::text_of(int64_t unit) const {
  return unit == kEndOfStep ? "nothing more in this step" : name_of_(static_cast<int>(unit));
}

void GatherOrder::refuse(int rank, int64_t mine, int64_t theirs) {
  has_parted_ = true;
  throw Error(ErrorKind::kBug,
              {.title = "ranks touch different parameters",
               .what = cat("rank ", ranks_.rank(), " gathers ", text_of(mine), ", rank ", rank, " ", text_of(theirs)),
               .where = cat("group ", ranks_.name(), ", transport ", ranks_.transport()),
               .fix = kFix});
}

void GatherOrder::compare_lists(bool has_failed) {
  const std::vector<State> states = exchange_states({std::ssize(gathered_), hash_of(gathered_), has_failed ? 1 : 0});
  if (std::ranges::all_of(states, [&](const State& one) { return one == states.front(); })) {
    gathered_.clear();
    return;
  }
  const std::vector<List> lists = exchange_lists(states);
  for (int rank = 0; rank < ranks_.world(); ++rank)
    compare_with(rank, lists[static_cast<size_t>(rank)], has_failed, states[static_cast<size_t>(rank)].has_failed != 0);
}

// A rank that has failed has not gathered all it would: what it lacks is no difference.
void GatherOrder::compare_with(int rank, const List& theirs, bool has_failed, bool they_failed) {
  const auto [here, there] = std::ranges::mismatch(gathered_, theirs);
  const bool mine_ended = here == gathered_.end(), theirs_ended = there == theirs.end();
  if ((mine_ended && (theirs_ended || has_failed)) || (theirs_ended && they_failed)) return;
  refuse(rank, mine_ended ? kEndOfStep : *here, theirs_ended ? kEndOfStep : *there);
}

std::vector<GatherOrder::State> GatherOrder::exchange_states(const State& mine) const {
  constexpr int64_t kNumWords = 3;
  const at::Tensor all = at::empty({kNumWords * ranks_.world()}, at::kLong);
  on_host_->all_gather(at::tensor({mine.count, mine.hash, mine.has_failed}, at::kLong), all);
  const auto words = values_of(all);
  std::vector<State> out;
  for (size_t at = 0; at < words.size(); at += kNumWords) out.push_back({words[at], words[at + 1], words[at + 2]});
  return out;
}

std::vector<GatherOrder::List> GatherOrder::exchange_lists(const std::vector<State>& states) const {
  std::vector<int64_t> counts;
  for (const State& one : states) counts.push_back(one.count);
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const at::Tensor all = at::empty({total}, at::kLong);
  on_host_->run(comm::all_gather(at::tensor(gathered_, at::kLong), all, counts));
  const auto values = values_of(all);
  std::vector<List> out;
  auto next = values.begin();
  for (const int64_t count : counts) {
    out.emplace_back(next, next + count);
    next += count;
  }
  return out;
}

void GatherOrder::rethrow(int unit) {
  const std::exception_ptr cause = std::current_exception();
  if (has_parted_) std::rethrow_exception(cause);
  if (on_host_ != nullptr && !std::exchange(is_over_, true)) {
    try {
      compare_lists(/*has_failed=*/true);
    } catch (const Error&) {
      if (has_parted_) throw;
    }
  }
  try {
    std::rethrow_exception(cause);
  } catch (const comm::PeerLost& lost) {
    comm::Loss loss = lost.loss();
    loss.waiting_in = cat(loss.waiting_in, loss.waiting_in.empty() ? "" : ", ", "gathering ", text_of(unit));
    throw comm::PeerLost(std::move(loss));
  } catch (const Error& error) {
    ErrorText text = error.text();
    text.what = cat(text.what, "; rank ", ranks_.rank(), " was gathering ", text_of(unit));
    throw Error(error.kind(), std::move(text));
  }
}

}  // namespace weft::engine
