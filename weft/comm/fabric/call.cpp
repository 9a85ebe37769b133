#include "weft/comm/fabric/call.h"

#include "weft/base/text.h"

namespace weft::fabric {

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::kNone: return "nothing yet";
    case Operation::kJoin: return "join";
    case Operation::kAllocate: return "allocate";
    case Operation::kBarrier: return "barrier";
    case Operation::kAllReduce: return "all_reduce";
    case Operation::kReduceScatter: return "reduce_scatter";
    case Operation::kAllGather: return "all_gather";
    case Operation::kBroadcast: return "broadcast";
    case Operation::kReduce: return "reduce";
    case Operation::kAllToAll: return "all_to_all";
    case Operation::kGather: return "gather";
    case Operation::kScatter: return "scatter";
    case Operation::kSend: return "send";
    case Operation::kRecv: return "recv";
  }
  return "an operation of another version";
}

std::string describe(Operation operation, uint64_t sequence) {
  if (operation == Operation::kNone) return std::string(name_of(operation));
  return cat(name_of(operation), ", call ", sequence);
}

}  // namespace weft::fabric
