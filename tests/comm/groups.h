// For the tests of this folder: what the ranks of one test have in common.
#pragma once

#include <unistd.h>

#include <atomic>
#include <string>

#include "tests/support/deadline.h"

namespace weft::comm {

// No healthy call takes as long.
inline constexpr double kLimitS = 60.0 * test::kSlowdown;

// One name for all ranks of a test, and for no other test.
inline std::string fresh_run_id() {
  static std::atomic<int> next = 0;
  return test::concat("transports-test-", ::getpid(), "-", next++);
}

}  // namespace weft::comm
