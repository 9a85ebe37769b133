// See process_impl.h for the rules that bind every line here.
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "weft/base/process_impl.h"

namespace weft::detail {
namespace {

// The shell's code for a command that could not be started; nobody sees it, for the parent reads the failure instead.
constexpr int kCouldNotStart = 127;

[[noreturn]] void fail(const ChildPlan& plan, ChildStage stage, int code) {
  const ChildFailure failure{stage, code};
  [[maybe_unused]] const auto written = ::write(plan.failure_fd, &failure, sizeof failure);
  ::_exit(kCouldNotStart);
}

// The parent's handlers must not run in the child, and a program expects SIGPIPE and an open mask whatever we do
// ourselves. Signals that are ignored on purpose (nohup) stay ignored.
void reset_signals() {
  struct sigaction plain{};
  plain.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction now{};
    if (::sigaction(number, nullptr, &now) != 0) continue;
    if (now.sa_handler != SIG_IGN || number == SIGPIPE) ::sigaction(number, &plain, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void bind_to_parent(const ChildPlan& plan) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the line above; then nobody will send that signal.
  if (::getppid() != plan.parent) ::_exit(kCouldNotStart);
}

void connect_streams(const ChildPlan& plan) {
  for (int i = 0; i < 3; ++i) {
    if (plan.streams[i] < 0) continue;
    while (::dup2(plan.streams[i], i) < 0) {
      if (errno != EINTR) fail(plan, ChildStage::kStreams, errno);
    }
  }
}

// As execvp does: a candidate we may not run does not end the search, but is what we report if nothing better comes.
int try_programs(const ChildPlan& plan) {
  int code = ENOENT;
  for (const char* const* program = plan.programs; *program != nullptr; ++program) {
    ::execve(*program, plan.argv, plan.envp);
    if (errno == EACCES) code = EACCES;
    if (errno != EACCES && errno != ENOENT && errno != ENOTDIR) return errno;
  }
  return code;
}

}  // namespace

void become_program(const ChildPlan& plan) noexcept {
  if (plan.die_with_parent) bind_to_parent(plan);
  if (plan.new_group && ::setpgid(0, 0) != 0) fail(plan, ChildStage::kGroup, errno);
  if (plan.cpus != nullptr && ::sched_setaffinity(0, plan.cpus_bytes, plan.cpus) != 0) {
    fail(plan, ChildStage::kCpus, errno);
  }
  connect_streams(plan);
  if (plan.cwd != nullptr && ::chdir(plan.cwd) != 0) fail(plan, ChildStage::kFolder, errno);
  reset_signals();
  fail(plan, ChildStage::kExec, try_programs(plan));
}

}  // namespace weft::detail
