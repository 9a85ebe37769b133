// What main() does, seen from outside: the DISABLED_ tests here misbehave on purpose and are run one by one, each in a
// process of its own.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/rank_processes.h"
#include "tests/support/test_helpers.h"
#include "tests/support/text.h"

extern "C" [[gnu::noinline]] void weft_test_hangs_here() {
  while (true) ::pause();
}
extern "C" [[gnu::noinline]] void weft_test_rank_below_hangs_here() {
  while (true) ::pause();
}

namespace weft::test {
namespace {

WEFT_RANK_MAIN(hangs_below_a_hung_test) {
  self.store().set("ready", concat(::getpid()));
  weft_test_rank_below_hangs_here();
  return 0;
}

TEST(Misbehaving, DISABLED_Hangs) { weft_test_hangs_here(); }

TEST(Misbehaving, DISABLED_HangsWithARank) {
  RankProcesses ranks("hangs_below_a_hung_test", 1, {.deadline = Seconds(600)});
  ranks.start();
  std::printf("rank is %s\n", ranks.store().get("ready").c_str());
  std::filesystem::remove_all(ranks.dir());  // the watchdog leaves without our destructors
  weft_test_hangs_here();
}

TEST(Misbehaving, DISABLED_Skips) { GTEST_SKIP() << "no such device here"; }

struct HangsAtExit {
  bool hang = false;
  ~HangsAtExit() {
    if (hang) weft_test_hangs_here();
  }
};
HangsAtExit hangs_at_exit;
TEST(Misbehaving, DISABLED_HangsAtExit) { hangs_at_exit.hang = true; }

TEST(Misbehaving, DISABLED_Fails) { FAIL() << "on purpose"; }
TEST(Misbehaving, DISABLED_Passes) {}

TEST(Main, AHungTestEndsWithItsNameAndStacks) {
  const auto result = run_test_again("Misbehaving.DISABLED_Hangs", {"WEFT_TEST_DEADLINE_S=2"});
  EXPECT_EQ(result.exit_code, kHungExitCode) << result.err;
  EXPECT_TRUE(has(result.err, "Misbehaving.DISABLED_Hangs did not finish within")) << result.err;
  EXPECT_TRUE(has(result.err, "weft_test_hangs_here")) << result.err;
  expect_no_child_left();
}

TEST(Main, AHungTestShowsAndEndsItsRanks) {
  const auto result = run_test_again("Misbehaving.DISABLED_HangsWithARank", {"WEFT_TEST_DEADLINE_S=2"});
  EXPECT_EQ(result.exit_code, kHungExitCode) << result.err;
  EXPECT_TRUE(has(result.err, "weft_test_hangs_here")) << result.err;
  EXPECT_TRUE(has(result.err, "weft_test_rank_below_hangs_here")) << result.err;
  const std::string before_pid = "rank is ";
  const size_t at = result.out.find(before_pid);
  ASSERT_NE(at, std::string::npos) << result.out;
  EXPECT_TRUE(goes_away(std::stoi(result.out.substr(at + before_pid.size()))));
}

TEST(Main, AHangAtExitIsSeenToo) {
  // Long enough for a machine that stands still for seconds: the deadline counts for every phase before the exit too.
  const auto result = run_test_again("Misbehaving.DISABLED_HangsAtExit", {"WEFT_TEST_DEADLINE_S=5"});
  EXPECT_EQ(result.exit_code, kHungExitCode) << result.err;
  EXPECT_TRUE(has(result.err, "the exit of the test program did not finish")) << result.err;
  EXPECT_TRUE(has(result.err, "weft_test_hangs_here")) << result.err;
}

TEST(Main, AllSkippedExits77WithTheReason) {
  const auto result = run_test_again("Misbehaving.DISABLED_Skips");
  EXPECT_EQ(result.exit_code, 77) << result.err;
  EXPECT_TRUE(has(result.out, "skipped: Misbehaving.DISABLED_Skips: ")) << result.out;
  EXPECT_TRUE(has(result.out, "no such device here")) << result.out;
}

TEST(Main, SomeSkippedExits0AndStillTellsTheReason) {
  const auto result = run_test_again("Misbehaving.DISABLED_Skips:Misbehaving.DISABLED_Passes");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(has(result.out, "no such device here")) << result.out;
}

TEST(Main, AFailureBesideSkipsIsAFailure) {
  EXPECT_EQ(run_test_again("Misbehaving.DISABLED_Skips:Misbehaving.DISABLED_Fails").exit_code, 1);
}

TEST(Main, RefusesADeadlineThatIsNone) {
  for (const std::string value : {"soon", "0", "-3", "1x", ""}) {
    const auto result = run_test_again("Misbehaving.DISABLED_Passes", {"WEFT_TEST_DEADLINE_S=" + value});
    EXPECT_EQ(result.exit_code, 2) << value;
    EXPECT_TRUE(has(result.err, "WEFT_TEST_DEADLINE_S must be")) << result.err;
  }
}

}  // namespace
}  // namespace weft::test
