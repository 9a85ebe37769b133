#include "weft/cli/worker/stop_signal.h"

#include <atomic>
#include <cstdio>

namespace weft::cli {
namespace {

std::atomic<int> asked_by{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void remember(int signal) { asked_by.store(signal); }

}  // namespace

StopSignal::StopSignal() {
  struct sigaction action{};
  action.sa_handler = remember;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one kills
  ::sigaction(SIGINT, &action, &old_int_);
  ::sigaction(SIGTERM, &action, &old_term_);
  ::sigaction(SIGUSR1, &action, &old_user_);
}

StopSignal::~StopSignal() {
  ::sigaction(SIGINT, &old_int_, nullptr);
  ::sigaction(SIGTERM, &old_term_, nullptr);
  ::sigaction(SIGUSR1, &old_user_, nullptr);
}

bool StopSignal::asked() const { return asked_by.load() != 0; }

void StopSignal::leave_as_asked() {
  const int signal = asked_by.load();
  if (signal == 0) return;
  std::fflush(stdout);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace weft::cli
