#include "weft/comm/c10d/wire_collectives.h"

#include <cstring>

#include "weft/base/check.h"
#include "weft/comm/c10d/wire_parts_impl.h"

namespace weft::comm {
namespace {

void copy(ConstBytes from, Bytes to) {
  if (!from.empty() && from.data() != to.data()) std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace

void WireCollectives::run(const Collective& call, uint32_t tag, Deadline deadline) {
  switch (call.operation) {
    case Operation::kAllReduce: return all_reduce(call, tag, deadline);
    case Operation::kReduce: return reduce(call, tag, deadline);
    case Operation::kReduceScatter: return reduce_scatter(call, tag, deadline);
    case Operation::kBroadcast: return broadcast(call, tag, deadline);
    case Operation::kAllGather: return all_gather(call, tag, deadline);
    case Operation::kAllToAll: return all_to_all(call, tag, deadline);
    case Operation::kGather: return gather(call, tag, deadline);
    case Operation::kScatter: return scatter(call, tag, deadline);
    case Operation::kBarrier: return barrier(tag, deadline);
    default: WEFT_CHECK(!"a collective");
  }
}

// Each rank begins with its neighbour, so that not all of them talk to rank 0 first.
std::vector<int> WireCollectives::others() const {
  std::vector<int> ranks;
  for (int step = 1; step < wire_.world(); ++step) ranks.push_back((wire_.rank() + step) % wire_.world());
  return ranks;
}

void WireCollectives::broadcast(const Collective& call, uint32_t tag, Deadline deadline) {
  const Bytes data = bytes_of(call.input);
  const int root = call.peer;
  Transfers transfers(wire_);
  if (wire_.world() == 2 || data.size() <= kOneRoundBytes) {
    if (wire_.rank() != root) transfers.receive(data, root, tag);
    for (const int peer : others())
      if (wire_.rank() == root) transfers.send(data, peer, tag);
    return transfers.wait(deadline);
  }
  const Parts parts(split_evenly(static_cast<int64_t>(data.size()), wire_.world()), 1);
  const Bytes own = parts.of(data, wire_.rank());
  Transfers scattered(wire_);
  if (wire_.rank() != root) scattered.receive(own, root, tag);
  for (const int peer : others()) {
    if (wire_.rank() != root) transfers.receive(parts.of(data, peer), peer, tag + kSecondRound);
    if (wire_.rank() == root) scattered.send(parts.of(data, peer), peer, tag);
  }
  scattered.wait(deadline);
  for (const int peer : others())
    if (peer != root) transfers.send(own, peer, tag + kSecondRound);
  transfers.wait(deadline);
}

void WireCollectives::all_gather(const Collective& call, uint32_t tag, Deadline deadline) {
  const Parts parts(call.output_counts, call.output.element_size());
  const Bytes input = bytes_of(call.input), output = bytes_of(call.output);
  Transfers transfers(wire_);
  for (const int peer : others()) transfers.receive(parts.of(output, peer), peer, tag);
  for (const int peer : others()) transfers.send(input, peer, tag);
  copy(input, parts.of(output, wire_.rank()));
  transfers.wait(deadline);
}

void WireCollectives::all_to_all(const Collective& call, uint32_t tag, Deadline deadline) {
  const Parts out(call.input_counts, call.input.element_size()), in(call.output_counts, call.output.element_size());
  const Bytes input = bytes_of(call.input), output = bytes_of(call.output);
  Transfers transfers(wire_);
  for (const int peer : others()) transfers.receive(in.of(output, peer), peer, tag);
  for (const int peer : others()) transfers.send(out.of(input, peer), peer, tag);
  copy(out.of(input, wire_.rank()), in.of(output, wire_.rank()));
  transfers.wait(deadline);
}

void WireCollectives::gather(const Collective& call, uint32_t tag, Deadline deadline) {
  Transfers transfers(wire_);
  const Bytes input = bytes_of(call.input);
  if (wire_.rank() != call.peer) {
    transfers.send(input, call.peer, tag);
    return transfers.wait(deadline);
  }
  const Parts parts(call.output_counts, call.input.element_size());
  const Bytes output = bytes_of(call.output);
  for (const int peer : others()) transfers.receive(parts.of(output, peer), peer, tag);
  copy(input, parts.of(output, call.peer));
  transfers.wait(deadline);
}

void WireCollectives::scatter(const Collective& call, uint32_t tag, Deadline deadline) {
  Transfers transfers(wire_);
  const Bytes output = bytes_of(call.output);
  if (wire_.rank() != call.peer) {
    transfers.receive(output, call.peer, tag);
    return transfers.wait(deadline);
  }
  const Parts parts(call.input_counts, call.output.element_size());
  const Bytes input = bytes_of(call.input);
  for (const int peer : others()) transfers.send(parts.of(input, peer), peer, tag);
  copy(parts.of(input, call.peer), output);
  transfers.wait(deadline);
}

// After the round of distance d everybody has heard, directly or not, of the 2d - 1 ranks before it.
void WireCollectives::barrier(uint32_t tag, Deadline deadline) {
  const int rank = wire_.rank(), world = wire_.world();
  std::byte sent{0}, received{0};
  for (int distance = 1; distance < world; distance *= 2) {
    Transfers transfers(wire_);
    transfers.receive({&received, 1}, (rank + world - distance) % world, tag);
    transfers.send({&sent, 1}, (rank + distance) % world, tag);
    transfers.wait(deadline);
  }
}

}  // namespace weft::comm
