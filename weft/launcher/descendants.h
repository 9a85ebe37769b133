// The processes below this one. While they live a Subreaper makes us the parent of those whose own parent has ended, so
// that no program a rank started can slip away from us.
//
// Threads: one. Failure: a /proc that cannot be read looks empty.
#pragma once

#include <sys/types.h>

#include <span>
#include <vector>

#include "weft/base/clock.h"

namespace weft::launcher {

class Subreaper {
 public:
  Subreaper();
  ~Subreaper();
  Subreaper(const Subreaper&) = delete;
  Subreaper& operator=(const Subreaper&) = delete;

 private:
  int before_ = 0;
};

// All of them, parents first; those that have ended and wait to be reaped too.
std::vector<pid_t> descendants();

// Reaps the ended children that came to us as orphans: all but `ours`.
void reap_orphans(std::span<const pid_t> ours);

// Kills everything below us but `ours`, again and again until nothing new appears. False when something still lives at
// the deadline: it may not be ours to kill (setuid), or hang in the kernel.
bool end_descendants(std::span<const pid_t> ours, Deadline deadline);

}  // namespace weft::launcher
