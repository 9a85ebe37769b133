// The watchdog ends a process that hangs: it names the test, prints the stacks of every thread and of every process
// below this one, kills those, and exits with kHungExitCode. main.cpp arms it for each test.
//
// Threads: any. Failure: nothing throws; should the stacks themselves get stuck, an alarm still ends the process.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "tests/support/deadline.h"

namespace weft::test {

class Watchdog {
 public:
  // Never destroyed: it also watches the exit of the process, where static destructors join threads and may hang.
  static Watchdog& instance();

  // `what` is named when the deadline passes. Replaces what was armed before.
  void arm(std::string_view what, Seconds deadline);
  void disarm();

 private:
  Watchdog() = default;
  void start_thread();
  void watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Deadline> deadline_;  // empty: not armed
  std::string what_;                  // "Suite.Name"
  double deadline_s_ = 0;
  bool started_ = false;
};

// Prints "what hung", then the stacks here and below; kills what is below; _exit(kHungExitCode). Only the first caller
// gets to do it, later ones wait for the end.
[[noreturn]] void end_hung_process(std::string_view what);

}  // namespace weft::test
