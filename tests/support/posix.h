// The few system calls the harness needs, with their errors turned into exceptions: descriptors that close themselves,
// starting a program (always fork and exec in one: libtorch has threads, and a bare fork would copy their locks), and
// the tree of processes below one.
//
// Threads: free functions, any thread. Failure: std::system_error, except where a comment says otherwise.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::test {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read_end, write_end;
};
// Closed on exec; reads do not block, writes do.
Pipe make_pipe();

[[noreturn]] void throw_errno(std::string_view doing, std::string_view subject);

// Best effort and no memory taken, for the moments when a process is in trouble: a closed descriptor loses the text.
void write_all(int fd, std::string_view text);

// The first program of this name on PATH, or "".
std::string find_program(std::string_view name);

// This process's environment with `changes` on top: "NAME=value" sets, "NAME" removes.
std::vector<std::string> environment_with(const std::vector<std::string>& changes);

struct SpawnRequest {
  std::string program;            // a path; PATH is not searched
  std::vector<std::string> argv;  // with the program's name first
  std::vector<std::string> env;   // the whole environment
  int out_fd = -1, err_fd = -1;   // what becomes its standard output and error; standard input is /dev/null
};
// Starts it in a process group of its own, with no signal blocked or ignored.
pid_t spawn(const SpawnRequest& request);

// A descriptor that stands for one process, whatever becomes of its number: readable once it has ended. Not open() when
// there is no such process; errno then says why. (System calls: glibc 2.36 declares them without C linkage.)
Fd open_pidfd(pid_t pid);
// False when the process has been reaped.
bool signal_pidfd(const Fd& pidfd, int sig);

// Every process below `root`, parents first. Empty when /proc cannot be read.
std::vector<pid_t> descendants_of(pid_t root);

}  // namespace weft::test
