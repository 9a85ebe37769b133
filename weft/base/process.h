// Child processes. A Process owns its child: while the object lives the child's pid cannot be reused, and when the
// object goes a child that still runs is killed and reaped.
//
//   auto child = Process::spawn({.argv = {"sort", "-n"}, .env = {{"LC_ALL", "C"}}, .out = Stream::pipe()});
//   const auto status = child.wait(Deadline::after(10));       // nothing: still running
//
// Threads: spawn from any thread (but see die_with_parent). A Process belongs to one thread, except that signal and
// kill_group may be called from any while another waits. Nothing else in the process may reap our children: SIGCHLD
// must not be ignored.
// Failure: a program that cannot be started is an IoError naming it; the child then never ran a line of its own.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/fd.h"

namespace weft {

// Where one of the child's three standard streams leads.
struct Stream {
  enum class Kind { kInherit, kNull, kPipe, kFile };
  Kind kind = Kind::kInherit;
  std::string path = {};  // only for kFile

  static Stream inherit() { return {}; }
  static Stream null() { return {Kind::kNull, ""}; }
  static Stream pipe() { return {Kind::kPipe, ""}; }
  // Input is read from the file; output replaces its content, and two streams may share one file.
  static Stream file(std::string path) { return {Kind::kFile, std::move(path)}; }
};

struct ProcessSpec {
  // The program, looked up in the child's PATH unless it has a '/', and its arguments.
  std::vector<std::string> argv = {};
  // Changes to our own environment: a value sets, nothing removes.
  std::map<std::string, std::optional<std::string>> env = {};
  // "" stays here. A relative program is found from there.
  std::string cwd = {};
  Stream in = {}, out = {}, err = {};
  // The CPUs it may run on, by number; empty: those we may run on.
  std::vector<int> cpus = {};
  // Leads a process group of its own: a Ctrl-C at the terminal does not reach it, kill_group does.
  bool new_group = false;
  // Killed when the thread that spawned it ends, however it ends: spawn from one that lives as long as the child may.
  bool die_with_parent = false;
};

struct ExitStatus {
  int code = 0;    // meaningful when signal is 0
  int signal = 0;  // what killed it, or 0

  bool ok() const { return code == 0 && signal == 0; }
  std::string describe() const;  // "exit code 3", "killed by SIGSEGV"
  bool operator==(const ExitStatus&) const = default;
};

class Process {
 public:
  static Process spawn(const ProcessSpec& spec);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  pid_t pid() const { return pid_; }
  // Readable (poll, epoll) once the child has ended.
  int pidfd() const { return pidfd_.get(); }

  // Nothing when the deadline passed first. Once it has an answer it keeps giving the same one.
  std::optional<ExitStatus> wait(Deadline deadline = Deadline::never());

  // To the child; no harm when it has ended.
  void signal(int number) const;
  // To the child and all it started; works after the child itself has ended. Requires: spec.new_group.
  void kill_group(int number) const;

  // Our ends of the pipes asked for; empty for other streams. Resetting `in` is the child's end of input.
  UniqueFd& in() { return in_; }
  UniqueFd& out() { return out_; }
  UniqueFd& err() { return err_; }

 private:
  Process() = default;
  void end_it() noexcept;

  pid_t pid_ = -1;
  bool leads_group_ = false;
  UniqueFd pidfd_, in_, out_, err_;
  std::optional<ExitStatus> status_;
};

// Bytes read, 0 at the end of the pipe, nothing when the deadline passed first.
std::optional<size_t> read_pipe(int fd, std::span<char> into, Deadline deadline);

struct Captured {
  ExitStatus status;
  std::string out, err;    // the first limit_bytes of each
  bool truncated = false;  // one of them had more
  bool timed_out = false;  // the deadline passed and we killed it; out and err hold what came before
};

// Runs to the end with both outputs captured (spec.out and spec.err are overruled; a piped input is closed at once).
// Does not wait for grandchildren that outlive the child. At the deadline: SIGKILL, to the whole group if
// spec.new_group.
Captured run_and_capture(ProcessSpec spec, Deadline deadline, size_t limit_bytes);

}  // namespace weft
