// What a rank is doing, as it stands in shared memory: the name and the number of its current call. Errors name it, and
// ranks compare it, so that two that call different things are told so instead of mixing their bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::fabric {

enum class Operation : uint32_t {
  kNone,
  kJoin,
  kAllocate,
  kBarrier,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kRecv,
};

std::string_view name_of(Operation operation);

// Equal in every rank of a call, or the call is wrong. `variant` tells apart what the bytes do not: type, op, root.
struct Call {
  Operation operation = Operation::kNone;
  uint32_t variant = 0;
  uint64_t bytes = 0;
  uint64_t place = 0;  // in which region and where in it; 0: memory of any kind, staged
  bool operator==(const Call&) const = default;
};

// "all_reduce, call 17"; "nothing yet" before the first.
std::string describe(Operation operation, uint64_t sequence);

}  // namespace weft::fabric
