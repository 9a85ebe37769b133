// Models that never exist whole: what is built inside the scope is cut to this rank's slice as it grows.
//
//   auto model = [&] {
//     const weft::ShardedInit scope(config, world);
//     return std::make_shared<MyModel>();          // as it stands; every rank draws the same random numbers
//   }();
//   auto engine = weft::initialize(model, config, world);
//
// Inside the scope every large tensor that an operator of this thread makes is watched. When those that are whole have more than
// `whole_bytes` together, the ones that were not used for longest are cut: their memory goes, and this rank's part of the bytes stays. An
// operator that touches one finds it whole again, which is a collective: all ranks build the same model, operator for operator.
// So values are those of a whole construction, whatever it does. After the scope's end new tensors are nobody's business; old ones
// stay cut until initialize() lays them into buckets, or they end.
//
// Without effect below stage 3, and with one rank.
//
// Ownership: the group is shared. Threads: a scope belongs to the thread that made it, and scopes of one thread do not nest. Failure:
// Error(kBug) for a second scope; what goes wrong behind an operator (PeerLost) is thrown by initialize().
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "weft/comm/world.h"
#include "weft/config/resolved.h"

namespace weft {

namespace engine {
class Nursery;

// Whether it came out of a scope and no engine has it yet.
bool is_in_nursery(const at::Tensor& tensor);

// While it lives a tensor of a scope is whole; nothing to do for others. A collective: all ranks make the same ones in the same order,
// whether they go on to read them or not.
class HeldWhole {
 public:
  explicit HeldWhole(const at::Tensor& tensor);
  ~HeldWhole();
  HeldWhole(const HeldWhole&) = delete;
  HeldWhole& operator=(const HeldWhole&) = delete;

 private:
  const std::shared_ptr<Nursery> nursery_;
  const void* const storage_;
};

// Sets a tensor that came out of a scope without making it whole: `bytes` gives those of this rank's part. False, and nothing is done, for
// others and for views. All ranks do it for the same tensors in the same order.
bool fill_cut(const at::Tensor& tensor, const std::function<at::Tensor(int64_t first, int64_t count)>& bytes);
// Its ranks; null for a tensor that came out of no scope.
comm::Group* group_of_nursery(const at::Tensor& tensor);

// Once parameters lie in buckets nobody has to watch for them any more.
void forget_grown_up();
}  // namespace engine

struct ShardedInitOptions {
  int64_t whole_bytes = int64_t{32} << 20;  // that may be whole at a time; an operator that needs more gets it
  int64_t smallest_bytes = 16'384;          // smaller tensors are left alone
};

class ShardedInit {
 public:
  ShardedInit(const config::Resolved& config, const World& world, ShardedInitOptions options = {});
  ~ShardedInit();
  ShardedInit(const ShardedInit&) = delete;
  ShardedInit& operator=(const ShardedInit&) = delete;

  // The most that was whole at one time, of what is watched.
  int64_t peak_whole_bytes() const;

 private:
  std::shared_ptr<engine::Nursery> nursery_;  // none: without effect
};

}  // namespace weft
