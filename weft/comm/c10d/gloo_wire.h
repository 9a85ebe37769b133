// Gloo's connections between the ranks of a group, as a Wire: two TCP connections to each peer, each moved by a thread
// of Gloo's. The wait of a transfer ends with the roll call: by the deadline at the latest, at once when a loss is
// found.
//
// Ownership: borrows the roll call, which must outlive every transfer's wait and end before the wire. Threads: as Wire.
#pragma once

#include <memory>

#include "weft/comm/c10d/roll_call.h"
#include "weft/comm/c10d/wire.h"

namespace weft::comm {

// Connects to every peer. Listens on the interfaces of GLOO_SOCKET_IFNAME, or else on the one that leads to the store.
std::unique_ptr<Wire> make_gloo_wire(const GroupIdentity& self, const Store& store, RollCall& roll_call,
                                     Deadline deadline);

}  // namespace weft::comm
