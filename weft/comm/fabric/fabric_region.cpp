// Collectives on shares, where they lie. Each opens with a barrier, so that the peers have written what we read, and ends
// with one, so that nobody writes what a peer still reads.
#include <algorithm>

#include "weft/comm/fabric/fabric_impl.h"

namespace weft::fabric {
namespace {

// Cuts end on cache lines: no two ranks write to one.
constexpr size_t kLineBytes = 64;

}  // namespace

Fabric::Cut Fabric::cut_of(int rank, size_t count, ElementType type) const {
  const size_t per_line = kLineBytes / element_bytes(type);
  const size_t num_lines = (count + per_line - 1) / per_line;
  const auto boundary = [&](size_t r) {
    return std::min(count, num_lines * r / static_cast<size_t>(world_) * per_line);
  };
  const size_t first = boundary(static_cast<size_t>(rank));
  return {first, boundary(static_cast<size_t>(rank) + 1) - first};
}

std::vector<const std::byte*> Fabric::shares_at(RegionPlace place, size_t offset) const {
  std::vector<const std::byte*> shares;
  for (int rank = 0; rank < world_; ++rank) shares.push_back(place.of(rank) + offset);
  return shares;
}

void Fabric::reduce_own_cut(RegionPlace data, size_t count, Elements elements) {
  const Cut cut = cut_of(rank_, count, elements.type);
  const size_t offset = cut.first * element_bytes(elements.type);
  fabric::reduce(data.mine() + offset, shares_at(data, offset), cut.count, elements.type, elements.op);
}

void Fabric::copy_other_cuts(RegionPlace data, size_t count, ElementType type, std::byte* into) const {
  // Starting behind ourselves spreads the readers over the owners.
  for (int step = 0; step < world_; ++step) {
    const int owner = (rank_ + step) % world_;
    const Cut cut = cut_of(owner, count, type);
    const size_t offset = cut.first * element_bytes(type);
    copy_bytes(into + offset, data.of(owner) + offset, cut.count * element_bytes(type));
  }
}

void Fabric::all_reduce(RegionPlace data, size_t count, Elements elements, Deadline deadline) {
  const size_t bytes = count * element_bytes(elements.type);
  check_place(data, bytes);
  if (bytes <= kSmallBytes) return all_reduce(data.mine(), count, elements, deadline);
  begin(Operation::kAllReduce, bytes, variant_of(elements));
  meet(deadline);
  reduce_own_cut(data, count, elements);
  meet(deadline);
  copy_other_cuts(data, count, elements.type, data.mine());
  meet(deadline);
}

void Fabric::reduce(RegionPlace data, size_t count, Elements elements, int root, Deadline deadline) {
  const size_t bytes = count * element_bytes(elements.type);
  check_place(data, bytes);
  if (bytes <= kSmallBytes) return reduce(data.mine(), count, elements, root, deadline);
  check_root(root);
  begin(Operation::kReduce, bytes, variant_of(elements, root));
  meet(deadline);
  reduce_own_cut(data, count, elements);
  meet(deadline);
  if (rank_ == root) copy_other_cuts(data, count, elements.type, data.mine());
  meet(deadline);
}

void Fabric::reduce_scatter(RegionPlace parts, std::span<const size_t> counts, void* into, Elements elements,
                            Deadline deadline) {
  check_parts(counts);
  const size_t size = element_bytes(elements.type);
  check_place(parts, sum_of(counts) * size);
  begin(Operation::kReduceScatter, sum_of(counts) * size, variant_of(elements));
  meet(deadline);
  const size_t count = counts[static_cast<size_t>(rank_)];
  fabric::reduce(into, shares_at(parts, sum_before(counts, rank_) * size), count, elements.type, elements.op);
  meet(deadline);
}

void Fabric::all_gather(RegionPlace shard, std::span<const size_t> bytes, void* into, Deadline deadline) {
  check_parts(bytes);
  check_place(shard, *std::max_element(bytes.begin(), bytes.end()));
  begin(Operation::kAllGather, sum_of(bytes));
  meet(deadline);
  for (int step = 0; step < world_; ++step) {
    const int owner = (rank_ + step) % world_;
    copy_bytes(bytes_at(into, sum_before(bytes, owner)), shard.of(owner), bytes[static_cast<size_t>(owner)]);
  }
  meet(deadline);
}

void Fabric::all_gather_in_place(RegionPlace whole, std::span<const size_t> bytes, Deadline deadline) {
  check_parts(bytes);
  check_place(whole, sum_of(bytes));
  begin(Operation::kAllGather, sum_of(bytes), 1);
  meet(deadline);
  for (int step = 0; step < world_; ++step) {
    const int owner = (rank_ + step) % world_;
    const size_t offset = sum_before(bytes, owner);
    copy_bytes(whole.mine() + offset, whole.of(owner) + offset, bytes[static_cast<size_t>(owner)]);
  }
  meet(deadline);
}

void Fabric::broadcast(RegionPlace data, size_t bytes, int root, Deadline deadline) {
  check_place(data, bytes);
  check_root(root);
  begin(Operation::kBroadcast, bytes, static_cast<uint32_t>(root));
  meet(deadline);
  copy_bytes(data.mine(), data.of(root), bytes);
  meet(deadline);
}

void Fabric::all_to_all(RegionPlace parts, size_t bytes_per_rank, void* into, Deadline deadline) {
  check_place(parts, bytes_per_rank * static_cast<size_t>(world_));
  begin(Operation::kAllToAll, bytes_per_rank);
  meet(deadline);
  for (int step = 0; step < world_; ++step) {
    const int owner = (rank_ + step) % world_;
    copy_bytes(bytes_at(into, bytes_per_rank * static_cast<size_t>(owner)),
               parts.of(owner) + bytes_per_rank * static_cast<size_t>(rank_), bytes_per_rank);
  }
  meet(deadline);
}

void Fabric::gather(RegionPlace shard, size_t bytes, void* into, int root, Deadline deadline) {
  check_place(shard, bytes);
  check_root(root);
  begin(Operation::kGather, bytes, static_cast<uint32_t>(root));
  meet(deadline);
  for (int owner = 0; owner < world_ && rank_ == root; ++owner) {
    copy_bytes(bytes_at(into, bytes * static_cast<size_t>(owner)), shard.of(owner), bytes);
  }
  meet(deadline);
}

void Fabric::scatter(RegionPlace parts, size_t bytes, void* into, int root, Deadline deadline) {
  check_place(parts, bytes * static_cast<size_t>(world_));
  check_root(root);
  begin(Operation::kScatter, bytes, static_cast<uint32_t>(root));
  meet(deadline);
  copy_bytes(bytes_at(into), parts.of(root) + bytes * static_cast<size_t>(rank_), bytes);
  meet(deadline);
}

}  // namespace weft::fabric
