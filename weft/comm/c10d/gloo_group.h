// The network transport for host memory: Gloo moves the bytes, the sums are our own and in rank order, so that a group
// over TCP gives the same bits as one over shared memory. Device tensors are staged (host_group.h).
//
// Ownership, threads: as Group. Failure: as Group; when a peer is lost all survivors name the same one (roll_call.h).
#pragma once

#include <memory>

#include "weft/comm/c10d/roll_call.h"
#include "weft/comm/c10d/store.h"
#include "weft/comm/group.h"

namespace weft::comm {

// Waits until all ranks are there and connected.
std::shared_ptr<Group> make_gloo_group(const GroupIdentity& self, const Store& store, Deadline join_deadline);

}  // namespace weft::comm
