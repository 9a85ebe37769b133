#include "tests/support/watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/support/posix.h"
#include "tests/support/stack_dump.h"

namespace weft::test {
namespace {

// Below the 30 s that ctest adds to a test's deadline, so that our exit code is the one it sees.
constexpr unsigned kEndLimitS = 25;

void exit_at_once(int) { ::_exit(kHungExitCode); }

// The memory allocator may be what hangs: this road out needs nothing but the kernel.
void set_last_resort() {
  struct sigaction action = {};
  action.sa_handler = exit_at_once;
  ::sigaction(SIGALRM, &action, nullptr);
  sigset_t alarm_only;
  ::sigemptyset(&alarm_only);
  ::sigaddset(&alarm_only, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);
  ::alarm(kEndLimitS);
}

void dump_and_kill_descendants() {
  const auto below = descendants_of(::getpid());
  for (const pid_t pid : below) dump_stacks(pid, STDERR_FILENO);
  for (const pid_t pid : below) ::kill(pid, SIGKILL);
}

// A thread of the harness must not receive the signals a test sends to its own process.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

Watchdog& Watchdog::instance() {
  static Watchdog& it = *new Watchdog;
  return it;
}

void Watchdog::arm(std::string_view what, Seconds deadline) {
  {
    const std::lock_guard lock(mutex_);
    start_thread();
    what_ = what;
    deadline_s_ = deadline.count();
    deadline_.emplace(deadline);
  }
  changed_.notify_one();
}

void Watchdog::disarm() {
  const std::lock_guard lock(mutex_);
  deadline_.reset();
}

void Watchdog::start_thread() {
  if (started_) return;
  started_ = true;
  const AllSignalsBlocked blocked;
  std::thread([this] { watch(); }).detach();
}

void Watchdog::watch() {
  ::pthread_setname_np(::pthread_self(), "watchdog");
  std::unique_lock lock(mutex_);
  while (true) {
    if (!deadline_) {
      changed_.wait(lock);
    } else if (deadline_->passed()) {
      end_hung_process(concat(what_, " did not finish within ", deadline_s_, " s"));
    } else {
      // Rearming need not wake us: an old deadline only makes us look once too often.
      changed_.wait_until(lock, deadline_->at());
    }
  }
}

void end_hung_process(std::string_view what) {
  static std::atomic_flag ending = ATOMIC_FLAG_INIT;
  if (ending.test_and_set()) {
    while (true) ::pause();
  }
  set_last_resort();
  write_all(STDERR_FILENO, concat("\n[   HUNG   ] ", what, "\n"));
  dump_stacks(::getpid(), STDERR_FILENO);
  dump_and_kill_descendants();
  ::_exit(kHungExitCode);
}

}  // namespace weft::test
