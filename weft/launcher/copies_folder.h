// Where the ranks of a host keep copies of their training in memory from one attempt to the next: a folder of /dev/shm that outlives them. The
// ranks fill it (weft/engine/checkpoints.h); whoever starts them gives it a name, and takes it away when no attempt follows.
//
//   const CopiesFolder copies(spec);      // none of this name is left from before, nor any of a run that is dead
//   ...                                   // attempts; ranks find it in WEFT_BUDDY_DIR
//                                         // gone
//
// A run whose launcher was killed leaves its folder behind. The next launcher on the host takes it away: nobody holds its lock, and nothing
// has been written to it for a while.
//
// Threads: one. Failure: what cannot be removed is said in the log.
#pragma once

#include <chrono>
#include <string>

#include "weft/launcher/launch_spec.h"

namespace weft::launcher {

// "": no attempt follows another, or none is told to go on from where one ended.
std::string copies_folder(const LaunchSpec& spec);

// Longer than any pause between two attempts, in which nobody holds the lock.
inline constexpr std::chrono::minutes kStaleAfter{15};
void remove_copies(const std::string& folder);
void remove_stale_copies(const std::string& root = "/dev/shm", std::chrono::seconds stale_after = kStaleAfter);

class CopiesFolder {
 public:
  explicit CopiesFolder(const LaunchSpec& spec);
  ~CopiesFolder();
  CopiesFolder(const CopiesFolder&) = delete;
  CopiesFolder& operator=(const CopiesFolder&) = delete;

 private:
  const std::string folder_;
};

}  // namespace weft::launcher
