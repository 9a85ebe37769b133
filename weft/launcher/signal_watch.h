// The signals that concern a launcher, as a descriptor for its poll loop: SIGINT, SIGTERM, SIGHUP and SIGUSR1, which ask for
// the end, and SIGCHLD. They are blocked while the object lives; programs started meanwhile have them open again. Those the
// caller ignores (nohup) stay ignored, and so does SIGPIPE.
//
// Threads: one, and it is the only one of the process. Failure: IoError when the kernel gives no descriptor.
#pragma once

#include <csignal>
#include <optional>

#include "weft/base/fd.h"

namespace weft::launcher {

class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Readable when a signal has come.
  int fd() const { return fd_.get(); }
  // The next one, or nothing.
  std::optional<int> take();

 private:
  sigset_t before_;
  struct sigaction pipe_before_;
  UniqueFd fd_;
};

}  // namespace weft::launcher
