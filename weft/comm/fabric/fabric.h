// Collectives between the ranks of one host through shared memory.
//
//   Fabric fabric({.run_id = "run-17/world", .rank = rank, .world = world}, Deadline::after(60));
//   Region bucket = fabric.allocate(bytes, deadline);
//   ... write gradients to bucket.mine() ...
//   fabric.all_reduce(bucket.at(0), count, ElementType::kFloat32, ReduceOp::kMean, deadline);
//
// Each collective comes in two kinds. Given a RegionPlace, it works on the ranks' shares where they lie: peers read each
// other's memory, nothing is copied in between. Given a pointer, it goes through a staging region in chunks; that is also
// what small in-place calls do, for one barrier instead of three. Reductions add in the order of ranks, whatever the
// chunking, so results have the same bits in both kinds and in every rank.
//
// All ranks make the same calls in the same order with the same sizes; who does not is named (an Error of kind kBug in
// every rank). When a call returns, this rank may read its result and write its buffers again.
//
// Ownership: one Fabric per rank and group. Regions may outlive it, but not be used in its calls. Threads: one at a time, send
// and receive apart; ranks may be threads of one process. Failure: PeerLost (loss.h) when a peer died, left, or has not come by the deadline;
// after that every call throws the same cause at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/comm/fabric/reduce_kernels.h"
#include "weft/comm/fabric/region.h"
#include "weft/comm/fabric/rendezvous.h"

namespace weft::fabric {

// What is reduced, and how.
struct Elements {
  ElementType type = ElementType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
};

class Channels;

class Fabric {
 public:
  // Waits until all ranks of the membership are there.
  Fabric(const Membership& self, Deadline deadline);
  ~Fabric();

  int rank() const { return rank_; }
  int world() const { return world_; }

  // A share of `bytes` in every rank, zeroed, aligned to a page. Refused memory is an IoError in every rank, and the
  // fabric goes on.
  Region allocate(size_t bytes, Deadline deadline);
  // The same memory for all ranks: each one's share is the whole. For no collective; whoever writes puts barriers around it.
  Region allocate_common(size_t bytes, Deadline deadline);
  void barrier(Deadline deadline);
  // One-sided: copies out of a peer's share. No peer takes part, so the order is up to the caller (see region.h).
  void read(int peer, RegionPlace from, size_t bytes, void* into) const;

  // Where the data lies. `into` may be anywhere in this rank's memory, also in its own share unless peers read there.
  void all_reduce(RegionPlace data, size_t count, Elements elements, Deadline deadline);
  // The share holds one part per rank, one after the other; this rank gets the reduction of part rank().
  void reduce_scatter(RegionPlace parts, std::span<const size_t> counts, void* into, Elements elements,
                      Deadline deadline);
  // Shards of bytes[r] at the same place in each rank's share; `into` gets them one after the other.
  void all_gather(RegionPlace shard, std::span<const size_t> bytes, void* into, Deadline deadline);
  // The share is the result: each rank has filled its own part of it, and gets the others.
  void all_gather_in_place(RegionPlace whole, std::span<const size_t> bytes, Deadline deadline);
  void broadcast(RegionPlace data, size_t bytes, int root, Deadline deadline);
  // The root's share gets the result; the others' stay as they are.
  void reduce(RegionPlace data, size_t count, Elements elements, int root, Deadline deadline);
  // The same from and to memory of any kind, which must be aligned to the elements. `from` and `into` do not overlap.
  void all_reduce(void* data, size_t count, Elements elements, Deadline deadline);
  void reduce_scatter(const void* from, std::span<const size_t> counts, void* into, Elements elements,
                      Deadline deadline);
  void all_gather(const void* from, std::span<const size_t> bytes, void* into, Deadline deadline);
  void broadcast(void* data, size_t bytes, int root, Deadline deadline);
  // Only the root's data changes.
  void reduce(void* data, size_t count, Elements elements, int root, Deadline deadline);
  // Part r of `from` goes to rank r; `into` gets one part from each, in order. The sizes of a pair agree.
  void all_to_all(const void* from, std::span<const size_t> from_bytes, void* into, std::span<const size_t> into_bytes,
                  Deadline deadline);
  // bytes[r] from each rank r, one after the other; `into` counts in the root only.
  void gather(const void* from, std::span<const size_t> bytes, void* into, int root, Deadline deadline);
  // bytes[r] to each rank r; `from` counts in the root only.
  void scatter(const void* from, std::span<const size_t> bytes, void* into, int root, Deadline deadline);

  // Between two ranks, outside the common order of calls; see channel.h. One thread per peer and direction.
  void send(const void* data, size_t bytes, int to, int tag, Deadline deadline);
  void receive(void* data, size_t bytes, int from, int tag, Deadline deadline);

 private:
  struct Cut;
  void begin(Operation operation, uint64_t bytes, uint32_t variant = 0, RegionPlace place = {});
  void meet(Deadline deadline);
  Region share(size_t bytes, const std::string& name, Backing backing, Deadline deadline);
  void check_place(RegionPlace place, size_t bytes) const;
  void check_root(int root) const;
  void check_parts(std::span<const size_t> parts) const;

  // In fabric_region.cpp.
  Cut cut_of(int rank, size_t count, ElementType type) const;
  std::vector<const std::byte*> shares_at(RegionPlace place, size_t offset) const;
  void reduce_own_cut(RegionPlace data, size_t count, Elements elements, int root);
  void copy_other_cuts(RegionPlace data, size_t count, ElementType type, std::byte* into) const;

  // In fabric_staged.cpp.
  RegionPlace slot() const;
  template <typename Put, typename Take>
  void in_rounds(size_t num_rounds, Deadline deadline, Put put, Take take);
  size_t piece_bytes(size_t num_pieces) const;
  size_t largest_of_all(size_t own, Deadline deadline);
  void reduce_staged_cut(size_t count, Elements elements);
  void reduce_staged(void* data, size_t count, Elements elements, int root, Deadline deadline);

  Rendezvous rendezvous_;
  Control& control_;
  const int rank_, world_;
  uint32_t num_regions_ = 0;
  Region stage_;  // two slots per rank, used in turn
  uint32_t turn_ = 0;
  std::unique_ptr<Channels> channels_;
  bool compared_ = false;  // this call with the peers'
};

}  // namespace weft::fabric
