// How far the clocks of the ranks' hosts are apart, so that their times can be drawn on one axis.
//
// Rank 0 asks one rank of each other host for its time, a few dozen times, and takes the quickest answer: the error is at most half of
// that round trip, some tens of microseconds on Ethernet, and is told with the reading. Ranks of one host read the same clock; which
// these are, the names of hosts do not tell (monitor/host_name.h). Clocks drift: who draws what took long reads them before and after
// (monitor/clock_line.h).
//
// A collective: all ranks call it. Failure: PeerLost.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/comm/group.h"
#include "weft/monitor/clock_line.h"

namespace weft::engine {

using Clock = std::function<int64_t()>;  // ns; tests have clocks of their own

// By rank, on all ranks: what to add to its now_ns() to have rank 0's, and when that was. `clocks`, by rank: the this_clock_name() of
// each, the same list on all.
std::vector<ClockReading> read_clocks(comm::Group& group, const std::vector<std::string>& clocks, at::Device device,
                                      const Clock& clock = now_ns);

}  // namespace weft::engine
