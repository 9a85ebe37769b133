// A file from one rank to another over their group, in pieces that both can hold.
//
// Threads: as the group. Failure: said in what is returned, on the side where it happened; the other is told, and neither is left
// waiting. PeerLost.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "weft/base/env.h"
#include "weft/comm/group.h"

namespace weft::engine {

struct PassedFile {
  std::string path;    // here
  uint64_t bytes = 0;  // that both know
};

struct Passed {
  bool whole = true;
  std::string problem = {};  // of this rank's; "" where it is the other's
};

Passed send_file(comm::Group& group, c10::Device device, Env& env, const PassedFile& file, int to);
// Makes the file anew, durably. Whoever could not write it takes the rest of it all the same.
Passed receive_file(comm::Group& group, c10::Device device, Env& env, const PassedFile& file, int from);

}  // namespace weft::engine
