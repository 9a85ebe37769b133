#include "tests/support/stack_dump.h"

#include <execinfo.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/support/deadline.h"
#include "tests/support/posix.h"

namespace weft::test {
namespace {

struct Tool {
  std::string program;
  std::vector<std::string> arguments;
  int worst_good_exit_code;
};

std::vector<Tool> tools_for(pid_t pid) {
  std::vector<Tool> out;
  // eu-stack exits 1 when the stacks were read but one of them ends in a frame it cannot unwind.
  if (const auto path = find_program("eu-stack"); !path.empty()) out.push_back({path, {"-s", "-p", concat(pid)}, 1});
  // gdb exits 0 even when it could not attach; asking for a frame then is an error, and that it does tell.
  if (const auto path = find_program("gdb"); !path.empty()) {
    out.push_back({path, {"-nx", "-batch", "-p", concat(pid), "-ex", "thread apply all bt", "-ex", "frame 0"}, 0});
  }
  return out;
}

int wait_for_exit(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// timeout(1) holds the limit, not we: while the tool reads our own stacks it stops all our threads.
bool run_tool(const Tool& tool, const std::string& timeout, int limit_s, int fd) {
  std::vector<std::string> argv{timeout, "-s", "KILL", concat(limit_s), tool.program};
  argv.insert(argv.end(), tool.arguments.begin(), tool.arguments.end());
  // No debuginfod: a dump must not wait for the network. No LD_PRELOAD: the tool is not what is being tested.
  const auto env = environment_with({"DEBUGINFOD_URLS", "LD_PRELOAD"});
  const pid_t child = spawn({.program = timeout, .argv = argv, .env = env, .out_fd = fd, .err_fd = fd});
  const int code = wait_for_exit(child);
  if (code >= 0 && code <= tool.worst_good_exit_code) return true;
  write_all(fd, concat("(", tool.program, " did not read the stacks: exit code ", code,
                       code == 128 + SIGKILL ? ", killed at its limit)\n" : ")\n"));
  return false;
}

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(concat("/proc/", pid, "/task"), error)) {
    out.push_back(std::stoi(entry.path().filename()));
  }
  return out;
}

void list_threads(pid_t pid, int fd) {
  for (const pid_t thread : threads_of(pid)) {
    std::ifstream file(concat("/proc/", pid, "/task/", thread, "/comm"));
    std::string name;
    std::getline(file, name);
    write_all(fd, concat("thread ", thread, ": ", name, "\n"));
  }
}

// What the signal handler below needs; set before the first signal is sent. Never destroyed: a thread that was slow to
// take its signal may still run the handler at exit.
struct BacktraceRequest {
  std::atomic<int> fd{-1};
  sem_t done;
};
BacktraceRequest& request() {
  static BacktraceRequest& it = *[] {
    auto* made = new BacktraceRequest;
    ::sem_init(&made->done, 0, 0);
    return made;
  }();
  return it;
}

void print_own_backtrace(int fd) {
  void* frames[128];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, 128), fd);
}

void on_backtrace_signal(int) {
  const int saved = errno;
  print_own_backtrace(request().fd.load());
  ::sem_post(&request().done);
  errno = saved;
}

void wait_for_backtrace(int fd) {
  // A thread that blocks the signal never answers; the others do at once.
  timespec limit;
  ::clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_sec += 1;
  while (::sem_timedwait(&request().done, &limit) != 0) {
    if (errno == EINTR) continue;
    return write_all(fd, "  (did not answer within 1 s)\n");
  }
}

// Each thread prints itself from a signal handler. Names need no tool, but only exported functions have one here: the
// rest are addresses for addr2line.
void backtrace_own_threads(int fd) {
  // The first backtrace(3) loads libgcc, which a signal handler must not do: make it here, into nothing.
  const Fd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  print_own_backtrace(nowhere.get());
  request().fd = fd;
  struct sigaction ours = {}, before = {};
  ours.sa_handler = on_backtrace_signal;
  const int sig = SIGRTMAX - 1;
  ::sigaction(sig, &ours, &before);
  for (const pid_t thread : threads_of(::getpid())) {
    write_all(fd, concat("backtrace of thread ", thread, ":\n"));
    if (thread == ::gettid()) {
      print_own_backtrace(fd);
    } else if (::syscall(SYS_tgkill, ::getpid(), thread, sig) == 0) {
      wait_for_backtrace(fd);
    }
  }
  ::sigaction(sig, &before, nullptr);
}

bool dump(pid_t pid, int fd, int limit_s) {
  write_all(fd, concat("stacks of process ", pid, "\n"));
  list_threads(pid, fd);
  const auto timeout = find_program("timeout");
  if (!timeout.empty()) {
    for (const auto& tool : tools_for(pid)) {
      if (run_tool(tool, timeout, limit_s, fd)) return true;
    }
  }
  write_all(fd, "(no tool read the stacks: install elfutils or gdb, and coreutils for timeout)\n");
  if (pid != ::getpid()) return false;
  backtrace_own_threads(fd);
  return true;
}

}  // namespace

void allow_stack_dumps() {
  // Fails where there is no Yama; then nothing stands in the way either.
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

bool dump_stacks(pid_t pid, int fd, int limit_s) {
  try {
    return dump(pid, fd, limit_s);
  } catch (const std::exception& error) {
    write_all(fd, "(the stacks could not be read: ");
    write_all(fd, error.what());
    write_all(fd, ")\n");
    return false;
  }
}

std::string stacks_of(pid_t pid, int limit_s) {
  const Fd file(::memfd_create("stacks", MFD_CLOEXEC));
  if (!file.open()) return "(no memory file for the stacks)\n";
  dump_stacks(pid, file.get(), limit_s);
  std::string out(static_cast<size_t>(std::max<off_t>(0, ::lseek(file.get(), 0, SEEK_END))), '\0');
  const ssize_t got = ::pread(file.get(), out.data(), out.size(), 0);
  out.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return out;
}

}  // namespace weft::test
