#include "tests/support/posix.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "tests/support/deadline.h"

namespace weft::test {
namespace {

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const auto& text : texts) out.push_back(const_cast<char*>(text.c_str()));  // exec's old signature; never written
  out.push_back(nullptr);
  return out;
}

void check(int code, std::string_view doing, std::string_view subject) {
  if (code == 0) return;
  errno = code;
  throw_errno(doing, subject);
}

// posix_spawn's two option objects, destroyed on every path.
struct SpawnOptions {
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t files;

  SpawnOptions() {
    check(::posix_spawnattr_init(&attributes), "posix_spawnattr_init", "");
    check(::posix_spawn_file_actions_init(&files), "posix_spawn_file_actions_init", "");
  }
  ~SpawnOptions() {
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&files);
  }
  SpawnOptions(const SpawnOptions&) = delete;
  SpawnOptions& operator=(const SpawnOptions&) = delete;

  void own_group_and_plain_signals() {
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    check(
        ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF),
        "posix_spawnattr_setflags", "");
  }

  void standard_streams(int out_fd, int err_fd) {
    check(::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0), "open", "/dev/null");
    check(::posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO), "dup2", "standard output");
    check(::posix_spawn_file_actions_adddup2(&files, err_fd, STDERR_FILENO), "dup2", "standard error");
  }
};

// The parent of a process, or -1 when it is gone. In /proc/PID/stat it follows the name, which may hold any character
// but is closed by the last ')'.
pid_t parent_of(pid_t pid) {
  std::ifstream file(concat("/proc/", pid, "/stat"));
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return -1;
  std::istringstream rest(stat.substr(name_end + 1));
  char state = 0;
  pid_t parent = -1;
  rest >> state >> parent;
  return parent;
}

std::vector<std::pair<pid_t, pid_t>> all_processes_and_parents() {
  std::vector<std::pair<pid_t, pid_t>> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec == std::errc{} && parsed.ptr == name.data() + name.size()) out.emplace_back(pid, parent_of(pid));
  }
  return out;
}

}  // namespace

void Fd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Pipe make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw_errno("make a pipe", "");
  Pipe pipe{Fd(fds[0]), Fd(fds[1])};
  if (::fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0) throw_errno("make a pipe non-blocking", "");
  return pipe;
}

void throw_errno(std::string_view doing, std::string_view subject) {
  const int code = errno;
  throw std::system_error(code, std::generic_category(), concat("cannot ", doing, " ", subject));
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

std::string find_program(std::string_view name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = concat(folder, "/", name);
    if (!folder.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  const auto name_of = [](const std::string& text) { return text.substr(0, text.find('=')); };
  std::vector<std::string> out;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    const auto replaces = [&](const std::string& change) { return name_of(change) == name_of(entry); };
    if (std::none_of(changes.begin(), changes.end(), replaces)) out.push_back(entry);
  }
  for (const auto& change : changes) {
    if (change.find('=') != std::string::npos) out.push_back(change);
  }
  return out;
}

pid_t spawn(const SpawnRequest& request) {
  SpawnOptions options;
  options.own_group_and_plain_signals();
  options.standard_streams(request.out_fd, request.err_fd);
  auto argv = pointers_to(request.argv);
  auto env = pointers_to(request.env);
  pid_t pid = -1;
  check(::posix_spawn(&pid, request.program.c_str(), &options.files, &options.attributes, argv.data(), env.data()),
        "start", request.program);
  return pid;
}

Fd open_pidfd(pid_t pid) { return Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

bool signal_pidfd(const Fd& pidfd, int sig) {
  return ::syscall(SYS_pidfd_send_signal, pidfd.get(), sig, nullptr, 0) == 0;
}

std::vector<pid_t> descendants_of(pid_t root) {
  const auto all = all_processes_and_parents();
  std::vector<pid_t> out{root};
  for (size_t next = 0; next < out.size(); ++next) {
    for (const auto& [pid, parent] : all) {
      if (parent == out[next]) out.push_back(pid);
    }
  }
  out.erase(out.begin());
  return out;
}

}  // namespace weft::test
