// While one lives, this thread gets no SIGPIPE: Gloo and libuv write to sockets whose other end may have died, and the
// signal would end the process instead of the call. Threads started meanwhile keep it blocked for good. The process's
// own handling of the signal is not touched.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <ctime>

namespace weft::comm {

class NoSigpipe {
 public:
  NoSigpipe() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    was_pending_ = is_pending();
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec at_once = {};
    if (!was_pending_ && is_pending()) ::sigtimedwait(&pipe_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  static bool is_pending() {
    sigset_t pending;
    ::sigpending(&pending);
    return ::sigismember(&pending, SIGPIPE) == 1;
  }

  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

}  // namespace weft::comm
