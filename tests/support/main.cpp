// main() of every test binary: GoogleTest under the watchdog, or one rank when a test re-executed this binary as one.
// Exits with 77 when every test that was selected was skipped, which ctest shows as skipped and not as passed.
#include <gtest/gtest.h>

#include <cstdio>
#include <exception>

#include "tests/support/rank_processes.h"
#include "tests/support/stack_dump.h"
#include "tests/support/watchdog.h"

#if defined(__SANITIZE_THREAD__)
// By default TSan sleeps for a second at the exit of a process that still has threads, and the watchdog is one.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() { return "atexit_sleep_ms=0"; }
// Debian's cpp-httplib is not instrumented, so that TSan misses the guards of its static locals. What the library itself
// reads and writes is left out; our handlers, which it calls, are watched.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "called_from_lib:libcpp-httplib.so";
}
#endif

namespace weft::test {
namespace {

constexpr int kSkippedExitCode = 77;
constexpr int kUsageExitCode = 2;

std::string full_name(const testing::TestInfo& test) { return concat(test.test_suite_name(), ".", test.name()); }

// Armed without a gap: what surrounds a test (suite set-up, tear-down, exit) can hang as well as the test.
class WatchdogListener : public testing::EmptyTestEventListener {
 public:
  explicit WatchdogListener(Seconds deadline) : deadline_(deadline) {}

  void OnTestProgramStart(const testing::UnitTest&) override { arm("the start of the test program"); }
  void OnTestSuiteStart(const testing::TestSuite& suite) override { arm(concat("the set-up of ", suite.name())); }
  void OnTestStart(const testing::TestInfo& test) override { arm(full_name(test)); }
  void OnTestEnd(const testing::TestInfo& test) override { arm(concat("what follows ", full_name(test))); }
  void OnTestProgramEnd(const testing::UnitTest&) override { arm("the exit of the test program"); }

 private:
  void arm(const std::string& what) { Watchdog::instance().arm(what, deadline_); }

  const Seconds deadline_;
};

void print_skip_reasons(const testing::TestInfo& test) {
  for (int i = 0; i < test.result()->total_part_count(); ++i) {
    const auto& part = test.result()->GetTestPartResult(i);
    if (part.skipped()) std::printf("skipped: %s: %s\n", full_name(test).c_str(), part.message());
  }
}

void print_all_skip_reasons(const testing::UnitTest& unit) {
  for (int i = 0; i < unit.total_test_suite_count(); ++i) {
    const auto& suite = *unit.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) print_skip_reasons(*suite.GetTestInfo(j));
  }
}

int run_tests() {
  // The fast style forks without exec, which is unsafe in a process with threads, and the watchdog is one.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  testing::UnitTest& unit = *testing::UnitTest::GetInstance();
  unit.listeners().Append(new WatchdogListener(test_deadline()));  // GoogleTest deletes it
  const int code = RUN_ALL_TESTS();
  print_all_skip_reasons(unit);
  const bool all_skipped = unit.skipped_test_count() > 0 && unit.skipped_test_count() == unit.test_to_run_count();
  return code == 0 && all_skipped ? kSkippedExitCode : code;
}

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  using namespace weft::test;  // NOLINT(google-build-using-namespace): main() is all there is below
  // Whole lines get out even when this process is killed or hangs.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  allow_stack_dumps();
  testing::InitGoogleTest(&argc, argv);
  if (is_rank_process()) return run_as_rank();
  try {
    return run_tests();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return kUsageExitCode;
  }
}
