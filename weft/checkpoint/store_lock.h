// The right to write to a store: one run at a time. The kernel gives it back when the process ends in any way, so that a
// crash leaves nothing to clean up; the file only says who holds it.
//
//   const StoreLock lock(env, "ckpt");   // one rank of the run, for as long as it saves
//
// Ownership: held until the object goes. Threads: any. Failure: Error(kInput) that names the holder; IoError.
#pragma once

#include <memory>
#include <string>

#include "weft/base/env.h"

namespace weft::checkpoint {

class StoreLock {
 public:
  // Makes the store's folder when it is missing. An Env without descriptors is one process's own and locks nothing.
  StoreLock(Env& env, const std::string& store);

 private:
  std::unique_ptr<File> file_;
};

}  // namespace weft::checkpoint
