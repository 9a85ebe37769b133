// Collectives on memory of any kind: in rounds through this rank's slots of the staging region.
//
// A round is: put into our slot, barrier, take from the peers' slots. Slots are used in turn, so one barrier a round is
// enough: who puts into a slot again has passed the barrier of the round in between, and every peer came to that one only
// after it had taken what was in the slot.
#include <algorithm>

#include "weft/comm/fabric/fabric_impl.h"

namespace weft::fabric {
namespace {

size_t rounds_for(size_t bytes, size_t piece) { return std::max<size_t>(1, (bytes + piece - 1) / piece); }

// The part of `bytes` that round `round` carries.
struct Piece {
  size_t offset, bytes;
};
Piece piece_of(size_t bytes, size_t round, size_t piece) {
  const size_t offset = std::min(bytes, round * piece);
  return {offset, std::min(piece, bytes - offset)};
}

}  // namespace

RegionPlace Fabric::slot() const { return stage_.at(turn_ % 2 * kSlotBytes); }

// A slot's room for one of several pieces, in whole cache lines: a multiple of every element's size.
size_t Fabric::piece_bytes(size_t num_pieces) const { return kSlotBytes / num_pieces / 64 * 64; }

template <typename Put, typename Take>
void Fabric::in_rounds(size_t num_rounds, Deadline deadline, Put put, Take take) {
  for (size_t round = 0; round < num_rounds; ++round, ++turn_) {
    put(round);
    meet(deadline);
    take(round);
  }
}

void Fabric::reduce_staged_cut(size_t count, Elements elements) {
  const Cut cut = cut_of(rank_, count, elements.type);
  const size_t offset = cut.first * element_bytes(elements.type);
  fabric::reduce(slot().mine() + offset, shares_at(slot(), offset), cut.count, elements.type, elements.op);
}

void Fabric::reduce_staged(void* data, size_t count, Elements elements, int root, Deadline deadline) {
  const size_t size = element_bytes(elements.type), bytes = count * size;
  const bool takes = root == kEveryRank || root == rank_;
  const auto put = [&](size_t round) {
    const Piece piece = piece_of(bytes, round, kSlotBytes);
    copy_bytes(slot().mine(), bytes_at(data, piece.offset), piece.bytes);
  };
  const auto take = [&](size_t round) {
    const Piece piece = piece_of(bytes, round, kSlotBytes);
    const size_t num = piece.bytes / size;
    std::byte* const into = bytes_at(data, piece.offset);
    if (bytes <= kSmallBytes) {
      if (takes) fabric::reduce(into, shares_at(slot(), 0), num, elements.type, elements.op);
      return;
    }
    reduce_staged_cut(num, elements);
    meet(deadline);
    if (takes) copy_other_cuts(slot(), num, elements.type, into);
  };
  in_rounds(rounds_for(bytes, kSlotBytes), deadline, put, take);
}

void Fabric::all_reduce(void* data, size_t count, Elements elements, Deadline deadline) {
  begin(Operation::kAllReduce, count * element_bytes(elements.type), variant_of(elements));
  reduce_staged(data, count, elements, kEveryRank, deadline);
}

void Fabric::reduce(void* data, size_t count, Elements elements, int root, Deadline deadline) {
  check_root(root);
  begin(Operation::kReduce, count * element_bytes(elements.type), variant_of(elements, root));
  reduce_staged(data, count, elements, root, deadline);
}

void Fabric::reduce_scatter(const void* from, std::span<const size_t> counts, void* into, Elements elements,
                            Deadline deadline) {
  check_parts(counts);
  const size_t size = element_bytes(elements.type), room = piece_bytes(counts.size());
  const size_t largest = *std::max_element(counts.begin(), counts.end()) * size;
  begin(Operation::kReduceScatter, sum_of(counts) * size, variant_of(elements));
  const auto put = [&](size_t round) {
    for (int part = 0; part < world_; ++part) {
      const Piece piece = piece_of(counts[static_cast<size_t>(part)] * size, round, room);
      copy_bytes(slot().mine() + room * static_cast<size_t>(part),
                 bytes_at(from, sum_before(counts, part) * size + piece.offset), piece.bytes);
    }
  };
  const auto take = [&](size_t round) {
    const Piece piece = piece_of(counts[static_cast<size_t>(rank_)] * size, round, room);
    fabric::reduce(bytes_at(into, piece.offset), shares_at(slot(), room * static_cast<size_t>(rank_)),
                   piece.bytes / size, elements.type, elements.op);
  };
  in_rounds(rounds_for(largest, room), deadline, put, take);
}

void Fabric::all_gather(const void* from, std::span<const size_t> bytes, void* into, Deadline deadline) {
  check_parts(bytes);
  begin(Operation::kAllGather, sum_of(bytes));
  const auto put = [&](size_t round) {
    const Piece piece = piece_of(bytes[static_cast<size_t>(rank_)], round, kSlotBytes);
    copy_bytes(slot().mine(), bytes_at(from, piece.offset), piece.bytes);
  };
  const auto take = [&](size_t round) {
    for (int owner = 0; owner < world_; ++owner) {
      const Piece piece = piece_of(bytes[static_cast<size_t>(owner)], round, kSlotBytes);
      copy_bytes(bytes_at(into, sum_before(bytes, owner) + piece.offset), slot().of(owner), piece.bytes);
    }
  };
  in_rounds(rounds_for(*std::max_element(bytes.begin(), bytes.end()), kSlotBytes), deadline, put, take);
}

void Fabric::broadcast(void* data, size_t bytes, int root, Deadline deadline) {
  check_root(root);
  begin(Operation::kBroadcast, bytes, static_cast<uint32_t>(root));
  const auto put = [&](size_t round) {
    const Piece piece = piece_of(bytes, round, kSlotBytes);
    if (rank_ == root) copy_bytes(slot().mine(), bytes_at(data, piece.offset), piece.bytes);
  };
  const auto take = [&](size_t round) {
    const Piece piece = piece_of(bytes, round, kSlotBytes);
    if (rank_ != root) copy_bytes(bytes_at(data, piece.offset), slot().of(root), piece.bytes);
  };
  in_rounds(rounds_for(bytes, kSlotBytes), deadline, put, take);
}

void Fabric::all_to_all(const void* from, std::span<const size_t> from_bytes, void* into,
                        std::span<const size_t> into_bytes, Deadline deadline) {
  check_parts(from_bytes);
  check_parts(into_bytes);
  const size_t room = piece_bytes(static_cast<size_t>(world_));
  begin(Operation::kAllToAll, 0);
  // Sizes are a matter of pairs; the number of rounds is everybody's.
  const size_t largest = largest_of_all(*std::max_element(from_bytes.begin(), from_bytes.end()), deadline);
  const auto put = [&](size_t round) {
    for (int part = 0; part < world_; ++part) {
      const Piece piece = piece_of(from_bytes[static_cast<size_t>(part)], round, room);
      copy_bytes(slot().mine() + room * static_cast<size_t>(part),
                 bytes_at(from, sum_before(from_bytes, part) + piece.offset), piece.bytes);
    }
  };
  const auto take = [&](size_t round) {
    for (int owner = 0; owner < world_; ++owner) {
      const Piece piece = piece_of(into_bytes[static_cast<size_t>(owner)], round, room);
      copy_bytes(bytes_at(into, sum_before(into_bytes, owner) + piece.offset),
                 slot().of(owner) + room * static_cast<size_t>(rank_), piece.bytes);
    }
  };
  in_rounds(rounds_for(largest, room), deadline, put, take);
}

size_t Fabric::largest_of_all(size_t own, Deadline deadline) {
  size_t largest = 0;
  const auto put = [&](size_t) { std::memcpy(slot().mine(), &own, sizeof own); };
  const auto take = [&](size_t) {
    for (int owner = 0; owner < world_; ++owner) {
      size_t theirs = 0;
      std::memcpy(&theirs, slot().of(owner), sizeof theirs);
      largest = std::max(largest, theirs);
    }
  };
  in_rounds(1, deadline, put, take);
  return largest;
}

void Fabric::gather(const void* from, std::span<const size_t> bytes, void* into, int root, Deadline deadline) {
  check_root(root);
  check_parts(bytes);
  begin(Operation::kGather, sum_of(bytes), static_cast<uint32_t>(root));
  const auto put = [&](size_t round) {
    const Piece piece = piece_of(bytes[static_cast<size_t>(rank_)], round, kSlotBytes);
    copy_bytes(slot().mine(), bytes_at(from, piece.offset), piece.bytes);
  };
  const auto take = [&](size_t round) {
    for (int owner = 0; owner < world_ && rank_ == root; ++owner) {
      const Piece piece = piece_of(bytes[static_cast<size_t>(owner)], round, kSlotBytes);
      copy_bytes(bytes_at(into, sum_before(bytes, owner) + piece.offset), slot().of(owner), piece.bytes);
    }
  };
  in_rounds(rounds_for(*std::max_element(bytes.begin(), bytes.end()), kSlotBytes), deadline, put, take);
}

void Fabric::scatter(const void* from, std::span<const size_t> bytes, void* into, int root, Deadline deadline) {
  check_root(root);
  check_parts(bytes);
  const size_t room = piece_bytes(static_cast<size_t>(world_));
  begin(Operation::kScatter, sum_of(bytes), static_cast<uint32_t>(root));
  const auto put = [&](size_t round) {
    for (int part = 0; part < world_ && rank_ == root; ++part) {
      const Piece piece = piece_of(bytes[static_cast<size_t>(part)], round, room);
      copy_bytes(slot().mine() + room * static_cast<size_t>(part),
                 bytes_at(from, sum_before(bytes, part) + piece.offset), piece.bytes);
    }
  };
  const auto take = [&](size_t round) {
    const Piece piece = piece_of(bytes[static_cast<size_t>(rank_)], round, room);
    copy_bytes(bytes_at(into, piece.offset), slot().of(root) + room * static_cast<size_t>(rank_), piece.bytes);
  };
  in_rounds(rounds_for(*std::max_element(bytes.begin(), bytes.end()), room), deadline, put, take);
}

}  // namespace weft::fabric
