#include "weft/launcher/signal_watch.h"

#include <sys/signalfd.h>

#include "weft/base/error.h"

namespace weft::launcher {
namespace {

bool is_ignored(int number) {
  struct sigaction now{};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// A blocked signal reaches the descriptor even when it is ignored, so the ignored ones stay out.
sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    if (!is_ignored(number)) sigaddset(&set, number);
  }
  return set;
}

}  // namespace

SignalWatch::SignalWatch() {
  const sigset_t set = watched();
  fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) throw IoError("watch for signals", "", errno);
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &pipe_before_);
}

SignalWatch::~SignalWatch() {
  while (take()) {  // one that came too late to matter must not end us now
  }
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalWatch::take() {
  signalfd_siginfo info;
  const ssize_t got = retry_interrupted([&] { return ::read(fd_.get(), &info, sizeof info); });
  if (got != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace weft::launcher
