// Shared by the harness's own tests: running this binary again, and looking for processes left behind.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "tests/support/child_process.h"

namespace weft::test {

// Runs one test of this binary, also a DISABLED_ one. Without GTEST_OUTPUT, which would overwrite the outer report.
inline ProgramResult run_test_again(const std::string& name, std::vector<std::string> env = {}) {
  env.push_back("GTEST_OUTPUT");
  return run_program({"/proc/self/exe", "--gtest_also_run_disabled_tests", "--gtest_filter=" + name}, {.env = env});
}

inline void expect_no_child_left() {
  errno = 0;
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  EXPECT_EQ(descendants_of(::getpid()), std::vector<pid_t>{});
}

// Whether the process is gone, or goes within 10 s. Somebody else may have to reap it; ended is enough.
inline bool goes_away(pid_t pid) {
  const Fd pidfd = open_pidfd(pid);
  if (!pidfd.open()) return errno == ESRCH;
  pollfd entry{pidfd.get(), POLLIN, 0};
  return ::poll(&entry, 1, 10'000 * kSlowdown) == 1;
}

}  // namespace weft::test
