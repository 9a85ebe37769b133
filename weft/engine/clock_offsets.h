// How far the clocks of the ranks' hosts are apart, so that their times can be drawn on one axis.
//
// Rank 0 asks one rank of each other host for its time, a few dozen times, and takes the quickest answer: the error is at most half of
// that round trip, some tens of microseconds on Ethernet. Ranks of one host read the same clock.
//
// A collective: all ranks call it. Failure: PeerLost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/comm/group.h"

namespace weft::engine {

// By rank: what to add to its now_ns() to have rank 0's. On rank 0; elsewhere zeros. `hosts`, by rank: the same on all.
std::vector<int64_t> clock_offsets(comm::Group& group, const std::vector<std::string>& hosts, at::Device device);

}  // namespace weft::engine
