// The collectives over a Wire. Reductions add in rank order with the fabric's kernels, so a network gives the same bits
// as shared memory, whatever the sizes of the messages.
//
// With n ranks and S bytes, each rank sends and receives:
//
//   all_reduce      2 S (n-1)/n   every rank reduces its part and sends it to all, chunk by chunk
//   reduce_scatter    S (n-1)/n   the parts go straight to the ranks that reduce them
//   all_gather        S (n-1)/n   straight into place
//   broadcast       the root 2 S, the others S: scattered, then gathered; to one other rank: S
//   small calls     S (n-1)       one round, everything to everybody
//
// Ownership: borrows the wire, keeps the memory that reductions take. Threads: one call at a time. Failure: the wire's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "weft/comm/c10d/wire.h"
#include "weft/comm/collective.h"

namespace weft::comm {

class WireCollectives {
 public:
  explicit WireCollectives(Wire& wire) : wire_(wire) {}

  // `tag` and the kNumTags - 1 after it must belong to this call alone. Not for send and recv.
  static constexpr uint32_t kNumTags = 4;
  void run(const Collective& call, uint32_t tag, Deadline deadline);

 private:
  struct Parts;
  struct Reduction;

  void all_reduce(const Collective& call, uint32_t tag, Deadline deadline);
  void reduce(const Collective& call, uint32_t tag, Deadline deadline);
  void reduce_scatter(const Collective& call, uint32_t tag, Deadline deadline);
  void broadcast(const Collective& call, uint32_t tag, Deadline deadline);
  void all_gather(const Collective& call, uint32_t tag, Deadline deadline);
  void all_to_all(const Collective& call, uint32_t tag, Deadline deadline);
  void gather(const Collective& call, uint32_t tag, Deadline deadline);
  void scatter(const Collective& call, uint32_t tag, Deadline deadline);
  void barrier(uint32_t tag, Deadline deadline);

  // Reduces our part; `done` gets each chunk of the result as it is ready.
  void reduce_own_part(const Reduction& job, const std::function<void(std::span<const std::byte>)>& done);
  void post_parts(const Reduction& job, Transfers& sends);
  // Everything from everybody, reduced here; nothing to do for ranks that are not `root` (-1: all want it).
  void reduce_in_one_round(const Collective& call, int root, uint32_t tag, Deadline deadline);

  std::vector<int> others() const;
  std::span<std::byte> scratch(size_t bytes);

  Wire& wire_;
  std::unique_ptr<std::byte[]> scratch_;
  size_t scratch_bytes_ = 0;
};

}  // namespace weft::comm
