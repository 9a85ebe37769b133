#include "weft/comm/fake_group.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "weft/base/check.h"

namespace weft::comm {
namespace {

// No call of this group ever waits.
constexpr double kDeadlineSeconds = 60;

using Counts = std::vector<int64_t>;

int64_t count_before(const Counts& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

at::Tensor part_of(const at::Tensor& whole, const Counts& counts, int rank) {
  return whole.view({-1}).narrow(0, count_before(counts, rank), counts[static_cast<size_t>(rank)]);
}

// Fills `into` with `from`, over and over.
void repeat(const at::Tensor& into, const at::Tensor& from) {
  if (from.numel() == 0) {
    into.zero_();
    return;
  }
  for (int64_t at = 0; at < into.numel(); at += from.numel()) {
    const int64_t count = std::min(from.numel(), into.numel() - at);
    into.narrow(0, at, count).copy_(from.narrow(0, 0, count));
  }
}

void repeat_into_parts(const at::Tensor& whole, const Counts& counts, const at::Tensor& from) {
  for (int rank = 0; rank < static_cast<int>(counts.size()); ++rank) repeat(part_of(whole, counts, rank), from);
}

// A maximum, a minimum and a mean of equal things are the thing itself.
void reduce_equal(const at::Tensor& data, ReduceOp op, int world) {
  if (op == ReduceOp::kSum) data.mul_(world);
}

void pretend(const Collective& call, int rank, int world) {
  switch (call.operation) {
    case Operation::kAllReduce: return reduce_equal(call.output, call.reduce_op, world);
    case Operation::kReduce:
      if (rank == call.peer) reduce_equal(call.output, call.reduce_op, world);
      return;
    case Operation::kReduceScatter:
      call.output.view({-1}).copy_(part_of(call.input, call.input_counts, rank));
      return reduce_equal(call.output, call.reduce_op, world);
    case Operation::kAllGather: return repeat_into_parts(call.output, call.output_counts, call.input.view({-1}));
    case Operation::kGather:
      if (rank == call.peer) repeat_into_parts(call.output, call.output_counts, call.input.view({-1}));
      return;
    case Operation::kAllToAll:
      return repeat_into_parts(call.output, call.output_counts, part_of(call.input, call.input_counts, rank));
    case Operation::kScatter:
      if (rank != call.peer) {
        call.output.zero_();
        return;
      }
      call.output.view({-1}).copy_(part_of(call.input, call.input_counts, rank));
      return;
    case Operation::kRecv: call.output.zero_(); return;
    default: return;
  }
}

// All parts but that of `rank`.
int64_t count_without(const Counts& counts, int rank) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0}) - counts[static_cast<size_t>(rank)];
}

int64_t ring_count_sent(const Collective& call, int rank, int world) {
  const int next = (rank + 1) % world;
  const auto count = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.numel() : 0; };
  switch (call.operation) {
    case Operation::kAllReduce: {
      const Counts parts = split_evenly(count(call.input), world);
      return count_without(parts, rank) + count_without(parts, next);
    }
    // Each part ends where it belongs: a rank sends every part on but its own.
    case Operation::kReduceScatter: return count_without(call.input_counts, rank);
    // Each part has come around when it reaches the rank before its owner.
    case Operation::kAllGather: return count_without(call.output_counts, next);
    case Operation::kBroadcast: return next == call.peer ? 0 : count(call.input);
    case Operation::kReduce: return rank == call.peer ? 0 : count(call.input);
    case Operation::kAllToAll: return count_without(call.input_counts, rank);
    case Operation::kGather: return rank == call.peer ? 0 : count(call.input);
    case Operation::kScatter: return rank == call.peer ? count_without(call.input_counts, rank) : 0;
    case Operation::kSend: return count(call.input);
    default: return 0;
  }
}

}  // namespace

FakeCount FakeTraffic::of(Operation operation) const {
  const auto found = by_operation.find(operation);
  return found == by_operation.end() ? FakeCount{} : found->second;
}

FakeCount FakeTraffic::total() const {
  FakeCount sum;
  for (const auto& [operation, count] : by_operation) {
    sum.calls += count.calls;
    sum.bytes += count.bytes;
    sum.wire_bytes += count.wire_bytes;
  }
  return sum;
}

int64_t ring_bytes_sent(const Collective& call, int rank, int world) {
  if (world == 1) return 0;
  return ring_count_sent(call, rank, world) * static_cast<int64_t>(c10::elementSize(call.dtype()));
}

FakeGroup::FakeGroup(const FakeGroupSpec& spec) : FakeGroup(spec, std::make_shared<Ledger>()) {}

FakeGroup::FakeGroup(const FakeGroupSpec& spec, std::shared_ptr<Ledger> ledger)
    : Group(spec.name, spec.rank, spec.world, kDeadlineSeconds), ledger_(std::move(ledger)) {
  WEFT_CHECK_GE(spec.rank, 0);
  WEFT_CHECK_LT(spec.rank, spec.world);
}

at::Tensor FakeGroup::allocate(int64_t count, at::ScalarType type) { return at::zeros({count}, type); }

void FakeGroup::read(int peer, const at::Tensor& mine, const at::Tensor& into) {
  WEFT_CHECK_GE(peer, 0);
  WEFT_CHECK_LT(peer, world());
  into.view({-1}).copy_(mine.view({-1}));
}

std::shared_ptr<Group> FakeGroup::split(const std::vector<int>& ranks, const std::string& name) {
  const FakeGroupSpec part{.name = name, .rank = rank_among(ranks, *this), .world = static_cast<int>(ranks.size())};
  return std::shared_ptr<FakeGroup>(new FakeGroup(part, ledger_));
}

FakeTraffic FakeGroup::traffic() const {
  const std::scoped_lock lock(ledger_->mutex);
  return ledger_->traffic;
}

Work FakeGroup::launch(const Collective& call, Launch) {
  pretend(call, rank(), world());
  const std::scoped_lock lock(ledger_->mutex);
  FakeCount& count = ledger_->traffic.by_operation[call.operation];
  ++count.calls;
  count.bytes += call.bytes();
  count.wire_bytes += ring_bytes_sent(call, rank(), world());
  return {};
}

}  // namespace weft::comm
