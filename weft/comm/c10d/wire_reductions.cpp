#include <deque>

#include "weft/comm/c10d/wire_parts_impl.h"

namespace weft::comm {
namespace {

// Small enough that the reduction of one chunk overlaps the wire of the next and its sources are still in the cache,
// large enough that a chunk's messages cost little beside its bytes.
constexpr size_t kWireChunkBytes = 1 << 20;
constexpr size_t kChunksInFlight = 2;

size_t num_chunks(size_t bytes) { return (bytes + kWireChunkBytes - 1) / kWireChunkBytes; }

template <typename Byte>
std::span<Byte> chunk_of(std::span<Byte> part, size_t index) {
  return part.subspan(index * kWireChunkBytes, std::min(kWireChunkBytes, part.size() - index * kWireChunkBytes));
}

}  // namespace

struct WireCollectives::Reduction {
  ConstBytes input;
  Parts parts;
  Bytes into;  // as large as our part; may be our part
  fabric::ElementType type;
  ReduceOp op;
  uint32_t tag;
  Deadline deadline;
};

Bytes WireCollectives::scratch(size_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    scratch_bytes_ = bytes;
  }
  return {scratch_.get(), bytes};
}

void WireCollectives::post_parts(const Reduction& job, Transfers& sends) {
  size_t most = 0;
  for (const int peer : others()) most = std::max(most, num_chunks(job.parts.of(job.input, peer).size()));
  for (size_t index = 0; index < most; ++index) {
    for (const int peer : others()) {
      const ConstBytes part = job.parts.of(job.input, peer);
      if (index < num_chunks(part.size())) sends.send(chunk_of(part, index), peer, job.tag);
    }
  }
}

void WireCollectives::reduce_own_part(const Reduction& job, const std::function<void(ConstBytes)>& done) {
  const ConstBytes own = job.parts.of(job.input, wire_.rank());
  const auto world = static_cast<size_t>(wire_.world());
  const size_t slot_bytes = std::min(own.size(), kWireChunkBytes);
  const Bytes slots = scratch(kChunksInFlight * world * slot_bytes);
  const auto slot = [&](size_t index, int rank) {
    return slots.subspan(((index % kChunksInFlight) * world + static_cast<size_t>(rank)) * slot_bytes, slot_bytes);
  };
  std::deque<Transfers> arriving;
  const auto post = [&](size_t index) {
    arriving.emplace_back(wire_);
    for (const int peer : others())
      arriving.back().receive(slot(index, peer).first(chunk_of(own, index).size()), peer, job.tag);
  };
  const size_t num = num_chunks(own.size());
  for (size_t index = 0; index < std::min(num, kChunksInFlight); ++index) post(index);
  Transfers sends(wire_);
  post_parts(job, sends);
  std::vector<const std::byte*> sources(world);
  for (size_t index = 0; index < num; ++index) {
    arriving.front().wait(job.deadline);
    arriving.pop_front();
    const ConstBytes mine = chunk_of(own, index);
    for (const int peer : others()) sources[static_cast<size_t>(peer)] = slot(index, peer).data();
    sources[static_cast<size_t>(wire_.rank())] = mine.data();
    const Bytes into = chunk_of(job.into, index);
    fabric::reduce(into.data(), sources, mine.size() / fabric::element_bytes(job.type), job.type, job.op);
    if (index + kChunksInFlight < num) post(index + kChunksInFlight);
    done(into);
  }
  sends.wait(job.deadline);
}

void WireCollectives::reduce_in_one_round(const Collective& call, int root, uint32_t tag, Deadline deadline) {
  const Bytes data = bytes_of(call.input);
  const bool wanted = root < 0 || root == wire_.rank();
  const Bytes slots = scratch(data.size() * static_cast<size_t>(wire_.world()));
  std::vector<const std::byte*> sources(static_cast<size_t>(wire_.world()), data.data());
  Transfers transfers(wire_);
  for (const int peer : others()) {
    const Bytes slot = slots.subspan(static_cast<size_t>(peer) * data.size(), data.size());
    sources[static_cast<size_t>(peer)] = slot.data();
    if (wanted) transfers.receive(slot, peer, tag);
  }
  for (const int peer : others())
    if (root < 0 || root == peer) transfers.send(data, peer, tag);
  transfers.wait(deadline);
  if (wanted && !data.empty())
    fabric::reduce(data.data(), sources, static_cast<size_t>(call.input.numel()), element_type(call.dtype()),
                   call.reduce_op);
}

// A peer sends its reduced chunk only after it has all of ours, so the chunk may arrive where ours was sent from.
void WireCollectives::all_reduce(const Collective& call, uint32_t tag, Deadline deadline) {
  const Bytes data = bytes_of(call.input);
  if (data.size() * static_cast<size_t>(wire_.world() - 1) <= kOneRoundBytes)
    return reduce_in_one_round(call, -1, tag, deadline);
  const Parts parts(split_evenly(call.input.numel(), wire_.world()), call.input.element_size());
  Transfers gathered(wire_);
  for (const int peer : others()) {
    const Bytes part = parts.of(data, peer);
    for (size_t index = 0; index < num_chunks(part.size()); ++index)
      gathered.receive(chunk_of(part, index), peer, tag + kSecondRound);
  }
  const Bytes own = parts.of(data, wire_.rank());
  reduce_own_part({data, parts, own, element_type(call.dtype()), call.reduce_op, tag, deadline}, [&](ConstBytes chunk) {
    for (const int peer : others()) gathered.send(chunk, peer, tag + kSecondRound);
  });
  gathered.wait(deadline);
}

void WireCollectives::reduce(const Collective& call, uint32_t tag, Deadline deadline) {
  const Bytes data = bytes_of(call.input);
  if (data.size() * static_cast<size_t>(wire_.world() - 1) <= kOneRoundBytes)
    return reduce_in_one_round(call, call.peer, tag, deadline);
  const bool is_root = wire_.rank() == call.peer;
  const Parts parts(split_evenly(call.input.numel(), wire_.world()), call.input.element_size());
  Transfers gathered(wire_);
  for (const int peer : others()) {
    const Bytes part = is_root ? parts.of(data, peer) : Bytes();
    for (size_t index = 0; index < num_chunks(part.size()); ++index)
      gathered.receive(chunk_of(part, index), peer, tag + kSecondRound);
  }
  const Bytes own = parts.of(data, wire_.rank());
  std::vector<std::byte> aside(is_root ? 0 : own.size());
  const Bytes into = is_root ? own : Bytes(aside);
  reduce_own_part({data, parts, into, element_type(call.dtype()), call.reduce_op, tag, deadline},
                  [&](ConstBytes chunk) {
                    if (!is_root) gathered.send(chunk, call.peer, tag + kSecondRound);
                  });
  gathered.wait(deadline);
}

void WireCollectives::reduce_scatter(const Collective& call, uint32_t tag, Deadline deadline) {
  const Parts parts(call.input_counts, call.input.element_size());
  const Bytes input = bytes_of(call.input);
  reduce_own_part({input, parts, bytes_of(call.output), element_type(call.dtype()), call.reduce_op, tag, deadline},
                  [](ConstBytes) {});
}

}  // namespace weft::comm
