// The network transport for device memory: NCCL, through c10d. Calls run on a stream of c10d's own, behind what the
// current stream has been given; Work::wait() makes the current stream wait, a blocking call the host too.
//
// Sums are in NCCL's order, not in rank order: the bits may differ from those of the other transports.
//
// Ownership, threads: as Group. Failure: as Group; when the roll call finds a loss the communicator is aborted, so that
// no kernel waits for a peer that is gone.
#pragma once

#include <memory>

#include "weft/comm/c10d/roll_call.h"
#include "weft/comm/c10d/store.h"
#include "weft/comm/group.h"

namespace weft::comm {

// Whether this build has it.
bool has_nccl();

// On the CUDA device with this number, which no other rank of the group may use. Waits until all ranks are there.
std::shared_ptr<Group> make_nccl_group(const GroupIdentity& self, const Store& store, int device,
                                       Deadline join_deadline);

}  // namespace weft::comm
