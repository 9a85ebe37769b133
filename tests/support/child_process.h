// A program under test in a process of its own: output captured, bounded in time, and nothing left behind. When it
// hangs its stacks are read, and then it and its process group are killed.
//
//   const auto result = run_program({"/proc/self/exe", "--gtest_filter=Suite.Name"}, {.deadline = Seconds(10)});
//   EXPECT_EQ(result.exit_code, 0) << result.err;
//
// Threads: one thread minds a ChildProcess (mind_children); signal() may come from any. Failure: a program that cannot
// be started throws std::system_error; everything it does afterwards is in the result.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/deadline.h"
#include "tests/support/posix.h"

namespace weft::test {

// Output up to a limit: the beginning and the end are kept, the middle is counted. A runaway rank must not fill memory.
class BoundedText {
 public:
  static constexpr size_t kHeadBytes = 64 << 10, kTailBytes = 192 << 10;

  void append(std::string_view text);
  std::string text() const;

 private:
  std::string head_, tail_;
  size_t num_dropped_bytes_ = 0;
};

struct ProgramResult {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;      // 0 when it exited
  bool hung = false;   // it was killed at the deadline
  double seconds = 0;  // from start to end
  std::string out, err;
  std::string stacks;  // of a hung one
};

class ChildProcess {
 public:
  // argv[0] is the program's path; `env` is its whole environment.
  ChildProcess(const std::vector<std::string>& argv, const std::vector<std::string>& env);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();  // kills and reaps it when it still runs

  pid_t pid() const { return pid_; }
  bool ended() const { return ended_; }
  // False when it has already been reaped.
  bool signal(int sig);
  // Requires: ended().
  ProgramResult result() const;

  // The rest is for mind_children.
  std::vector<int> descriptors() const;  // readable when there is something to do
  void service();                        // takes what was printed; reaps it when it has ended
  void kill_group();
  void end_hung();  // reads its stacks, then kills it

 private:
  struct Stream {
    Fd fd;
    BoundedText text;
    void drain();
  };
  void reap();

  const Deadline::Clock::time_point started_;
  Stream out_, err_;
  pid_t pid_ = -1;
  Fd pidfd_;
  bool ended_ = false;
  ProgramResult result_;
};

using Children = std::vector<std::unique_ptr<ChildProcess>>;

// Serves the children until all have ended. At the deadline those still running are ended as hung; when `stop_fd`
// (-1: none) becomes readable they are killed at once. `on_end` is called with the index of each as it ends.
void mind_children(const Children& children, const Deadline& deadline, int stop_fd,
                   const std::function<void(int)>& on_end);

struct ProgramOptions {
  Seconds deadline{0};                // 0: see ranks_deadline
  std::vector<std::string> env = {};  // "NAME=value" sets, "NAME" removes
};

ProgramResult run_program(const std::vector<std::string>& argv, const ProgramOptions& options = {});

}  // namespace weft::test
