// Collectives on shares, where they lie. Each opens with a barrier, so that the peers have written what we read, and ends
// with one, so that nobody writes what a peer still reads.
#include <algorithm>

#include "weft/comm/fabric/fabric_impl.h"

namespace weft::fabric {
namespace {

// Cuts end on cache lines: no two ranks write to one.
constexpr size_t kLineBytes = 64;
// Blocks of all ranks together stay in the second-level cache.
constexpr size_t kBlockBytes = 16 << 10;

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

// Writes the result into the shares of those who want it, block by block: the lines were just read, so they are in the
// cache, and nobody has to fetch the result once more. No two ranks write the same place, and no rank reads its peers' cuts.
void Fabric::reduce_own_cut(RegionPlace data, size_t count, Elements elements, int root) {
  const Cut cut = cut_of(rank_, count, elements.type);
  const size_t size = element_bytes(elements.type), block = kBlockBytes / size;
  for (size_t done = 0; done < cut.count; done += block) {
    const size_t offset = (cut.first + done) * size, num = std::min(block, cut.count - done);
    const auto shares = shares_at(data, offset);
    std::byte* const into = data.of(root == kEveryRank ? rank_ : root) + offset;
    fabric::reduce(into, shares, num, elements.type, elements.op);
    for (int peer = 0; peer < world_ && root == kEveryRank; ++peer) {
      copy_bytes(data.of(peer) + offset, into, num * size);
    }
  }
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
  begin(Operation::kAllReduce, bytes, variant_of(elements), data);
  meet(deadline);
  reduce_own_cut(data, count, elements, kEveryRank);
  meet(deadline);
}

void Fabric::reduce(RegionPlace data, size_t count, Elements elements, int root, Deadline deadline) {
  const size_t bytes = count * element_bytes(elements.type);
  check_place(data, bytes);
  if (bytes <= kSmallBytes) return reduce(data.mine(), count, elements, root, deadline);
  check_root(root);
  begin(Operation::kReduce, bytes, variant_of(elements, root), data);
  meet(deadline);
  reduce_own_cut(data, count, elements, root);
  meet(deadline);
}

void Fabric::reduce_scatter(RegionPlace parts, std::span<const size_t> counts, void* into, Elements elements,
                            Deadline deadline) {
  check_parts(counts);
  const size_t size = element_bytes(elements.type);
  check_place(parts, sum_of(counts) * size);
  begin(Operation::kReduceScatter, sum_of(counts) * size, variant_of(elements), parts);
  meet(deadline);
  const size_t count = counts[static_cast<size_t>(rank_)];
  fabric::reduce(into, shares_at(parts, sum_before(counts, rank_) * size), count, elements.type, elements.op);
  meet(deadline);
}

void Fabric::all_gather(RegionPlace shard, std::span<const size_t> bytes, void* into, Deadline deadline) {
  check_parts(bytes);
  check_place(shard, *std::max_element(bytes.begin(), bytes.end()));
  begin(Operation::kAllGather, sum_of(bytes), 0, shard);
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
  begin(Operation::kAllGather, sum_of(bytes), 1, whole);
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
  begin(Operation::kBroadcast, bytes, static_cast<uint32_t>(root), data);
  meet(deadline);
  copy_bytes(data.mine(), data.of(root), bytes);
  meet(deadline);
}

}  // namespace weft::fabric
