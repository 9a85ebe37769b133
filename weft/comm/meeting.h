// The first exchange of a run over a network: one text from every rank to every rank, through the store.
//
// Threads: one call per rank. Failure: PeerLost, the same in every rank that came, for one that has not come by the deadline;
// PeerLost of rank 0 when the store it serves is gone.
#pragma once

#include <string>
#include <vector>

#include "weft/comm/c10d/store.h"

namespace weft::comm {

// What the ranks said, by rank.
std::vector<std::string> meet(const Store& store, int rank, int world, const std::string& text, Deadline deadline);

}  // namespace weft::comm
