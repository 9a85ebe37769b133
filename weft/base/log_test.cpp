#include "weft/base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

// The level is read once per process, so each case logs from a process of its own (a death test that re-executes).

namespace weft {
namespace {

class Log : public testing::Test {
 protected:
  Log() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
  ~Log() override { unsetenv("WEFT_LOG"); }

  // Runs `body` with WEFT_LOG=level in a child that exits with 0 and expects its standard error to be exactly `regex`.
  template <typename Body>
  static void expect_log(const char* level, Body body, const std::string& regex) {
    setenv("WEFT_LOG", level, 1);
    EXPECT_EXIT(
        {
          body();
          _exit(0);
        },
        testing::ExitedWithCode(0), testing::MatchesRegex(regex));
  }

  static void say_everything() {
    log_debug("a ", 1);
    log_info("b ", 2);
    log_warn("c ", 3);
    log_error("d ", 4);
  }
};

TEST_F(Log, InfoIsTheDefaultLevel) {
  expect_log("", say_everything, "\\[weft\\] b 2\n\\[weft\\] \\[WARN\\] c 3\n\\[weft\\] \\[ERROR\\] d 4\n");
}

TEST_F(Log, AnUnknownLevelIsNamedAndInfoUsed) {
  expect_log(
      "loud", [] { log_info("x"); },
      "\\[weft\\] \\[WARN\\] WEFT_LOG=loud is none of debug, info, warn, error; info is used\n\\[weft\\] x\n");
}

TEST_F(Log, DebugShowsAll) {
  expect_log("debug", say_everything,
             "\\[weft\\] a 1\n\\[weft\\] b 2\n\\[weft\\] \\[WARN\\] c 3\n\\[weft\\] \\[ERROR\\] d 4\n");
}

TEST_F(Log, ErrorShowsOnlyErrors) { expect_log("error", say_everything, "\\[weft\\] \\[ERROR\\] d 4\n"); }

TEST_F(Log, WarnHidesInfo) {
  expect_log("warn", say_everything, "\\[weft\\] \\[WARN\\] c 3\n\\[weft\\] \\[ERROR\\] d 4\n");
}

TEST_F(Log, LinesCarryTheRank) {
  expect_log(
      "info",
      [] {
        set_log_rank(3);
        log_info("ready");
      },
      "\\[weft rank 3\\] ready\n");
}

TEST_F(Log, BracesAreNoFormat) {
  expect_log("info", [] { log_info("{} {0} %s {"); }, "\\[weft\\] \\{\\} \\{0\\} %s \\{\n");
}

TEST_F(Log, PreludeRunsBeforeEachLineUntilRemoved) {
  const auto body = [] {
    set_log_prelude([] { [[maybe_unused]] const auto n = ::write(STDERR_FILENO, "<", 1); });
    log_info("a");
    log_debug("not shown, no prelude");
    set_log_prelude(nullptr);
    log_info("b");
  };
  expect_log("info", body, "<\\[weft\\] a\n\\[weft\\] b\n");
}

TEST_F(Log, EnabledFollowsTheLevel) {
  const auto body = [] {
    if (log_enabled(LogLevel::kInfo) || !log_enabled(LogLevel::kWarn)) _exit(1);
  };
  expect_log("warn", body, "");
}

}  // namespace
}  // namespace weft
