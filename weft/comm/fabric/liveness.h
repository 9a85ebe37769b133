// Whether a process still runs, told apart from a later one that got the same number.
//
// Ownership: a PeerWatch owns one pidfd where the kernel gives them. Threads: one owner. Failure: none; where neither
// pidfds nor /proc can be had, a signal 0 decides, which cannot see a reused number.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "weft/base/fd.h"

namespace weft::fabric {

// When the process started, in clock ticks since boot; 0 when that cannot be read. A zombie has no start time any more:
// it will not run again.
uint64_t start_time_of(pid_t pid);

class PeerWatch {
 public:
  PeerWatch() = default;
  PeerWatch(pid_t pid, uint64_t start_time);

  bool watching() const { return pid_ > 0; }
  bool alive() const;

 private:
  bool alive_by_proc() const;

  pid_t pid_ = 0;
  uint64_t start_time_ = 0;
  UniqueFd pidfd_;
  bool was_gone_ = false;  // ended before we could look
};

}  // namespace weft::fabric
