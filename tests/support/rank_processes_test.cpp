#include "tests/support/rank_processes.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "tests/support/test_helpers.h"
#include "tests/support/text.h"

extern "C" [[gnu::noinline]] void weft_test_rank_process_hangs_here() {
  while (true) ::pause();
}

namespace weft::test {
namespace {

WEFT_RANK_MAIN(speaks_and_exits_with_its_rank) {
  std::printf("rank %d of %d\n", self.rank(), self.world());
  std::fprintf(stderr, "to err from %d\n", self.rank());
  return self.rank();
}

WEFT_RANK_MAIN(passes_values_round) {
  FileStore& store = self.store();
  const int next = (self.rank() + 1) % self.world(), before = (self.rank() + self.world() - 1) % self.world();
  store.set(concat("to ", next), concat("from ", self.rank()));
  EXPECT_EQ(store.get(concat("to ", self.rank())), concat("from ", before));
  std::ofstream(self.dir() / concat("file ", self.rank())) << "here";
  for (int round = 0; round < 5; ++round) store.barrier();
  for (int rank = 0; rank < self.world(); ++rank) {
    EXPECT_TRUE(std::filesystem::exists(self.dir() / concat("file ", rank)));
  }
  return 0;
}

WEFT_RANK_MAIN(says_ready_and_hangs) {
  self.store().set(concat("ready ", self.rank()), "");
  weft_test_rank_process_hangs_here();
  return 0;
}

WEFT_RANK_MAIN(waits_for_all_in_a_barrier) {
  self.store().set(concat("ready ", self.rank()), "");
  if (self.rank() == 1) weft_test_rank_process_hangs_here();
  self.store().barrier();
  return 0;
}

WEFT_RANK_MAIN(throws) { throw std::runtime_error("out of cheese"); }

WEFT_RANK_MAIN(fails_an_expectation) {
  EXPECT_EQ(self.world(), 99) << "as it should";
  return 0;
}

WEFT_RANK_MAIN(prints_its_environment) {
  std::printf("%s %s", std::getenv("WEFT_TEST_COLOUR"), std::getenv("WEFT_TEST_DIR") == self.dir() ? "same" : "other");
  return std::getenv("WEFT_TEST_RANK_ENTRY") == nullptr ? 0 : 1;
}

// Ends without waiting for the ranks it has started, as a crash would.
WEFT_RANK_MAIN(starts_a_rank_and_vanishes) {
  RankProcesses inner("says_ready_and_hangs", 1);
  inner.start();
  inner.store().get("ready 0");
  self.store().set("inner", concat(inner.pid(0)));
  self.store().get("go");
  std::filesystem::remove_all(inner.dir());
  ::_exit(0);
}

class RankProcessesWorlds : public testing::TestWithParam<int> {};

TEST_P(RankProcessesWorlds, ExitCodesAndOutputAreTold) {
  const int world = GetParam();
  const auto results = run_ranks_as_processes("speaks_and_exits_with_its_rank", world);
  ASSERT_EQ(results.size(), static_cast<size_t>(world));
  for (int rank = 0; rank < world; ++rank) {
    EXPECT_EQ(results[rank].rank, rank);
    EXPECT_EQ(results[rank].exit_code, rank);
    EXPECT_EQ(results[rank].signal, 0);
    EXPECT_EQ(results[rank].out, concat("rank ", rank, " of ", world, "\n"));
    EXPECT_EQ(results[rank].err, concat("to err from ", rank, "\n"));
    EXPECT_FALSE(results[rank].hung);
    EXPECT_GT(results[rank].seconds, 0);
  }
  expect_no_child_left();
}

TEST_P(RankProcessesWorlds, ValuesPassThroughTheStore) {
  expect_all_ok(run_ranks_as_processes("passes_values_round", GetParam()));
  expect_no_child_left();
}

INSTANTIATE_TEST_SUITE_P(Worlds, RankProcessesWorlds, testing::Values(1, 2, 3, 4));

TEST(RankProcesses, AHungRankIsKilledAtTheDeadlineAndItsStackTold) {
  const auto results = run_ranks_as_processes("says_ready_and_hangs", 2, {.deadline = Seconds(2)});
  for (const auto& result : results) {
    EXPECT_TRUE(result.hung);
    EXPECT_EQ(result.signal, SIGKILL);
    EXPECT_GE(result.seconds, 2);
    EXPECT_TRUE(has(result.stacks, "weft_test_rank_process_hangs_here")) << result.stacks;
  }
  expect_no_child_left();
}

TEST(RankProcesses, AStoppedRankIsKilledAtTheDeadlineToo) {
  RankProcesses ranks("says_ready_and_hangs", 1, {.deadline = Seconds(2)});
  ranks.start();
  ranks.store().get("ready 0");
  EXPECT_TRUE(ranks.signal(0, SIGSTOP));
  const auto results = ranks.wait();
  EXPECT_TRUE(results.at(0).hung);
  EXPECT_EQ(results.at(0).signal, SIGKILL);
  expect_no_child_left();
}

TEST(RankProcesses, AKilledRankIsSeenAndFreesTheBarrier) {
  RankProcesses ranks(
      "waits_for_all_in_a_barrier", 3,
      {.expected = {{0, {.exit_code = kThrewExitCode}}, {1, {.signal = SIGKILL}}, {2, {.exit_code = kThrewExitCode}}}});
  ranks.start();
  for (int rank = 0; rank < 3; ++rank) ranks.store().get(concat("ready ", rank));
  EXPECT_TRUE(ranks.signal(1, SIGKILL));
  const auto results = ranks.wait();
  expect_all_ok(results);
  EXPECT_EQ(results[1].signal, 9);
  EXPECT_EQ(results[1].exit_code, -1);
  EXPECT_FALSE(results[1].hung);
  for (const int survivor : {0, 2}) {
    EXPECT_TRUE(has(results[survivor].err, "rank 1 ended without arriving at barrier 1")) << results[survivor].err;
  }
  EXPECT_FALSE(ranks.signal(1, SIGKILL));
  expect_no_child_left();
}

TEST(RankProcesses, AnExceptionIsToldWithItsText) {
  const auto results = run_ranks_as_processes("throws", 1);
  EXPECT_EQ(results.at(0).exit_code, kThrewExitCode);
  EXPECT_EQ(results.at(0).err, "the rank threw: out of cheese\n");
}

TEST(RankProcesses, AFailedExpectationFailsTheRank) {
  const auto results = run_ranks_as_processes("fails_an_expectation", 1);
  EXPECT_EQ(results.at(0).exit_code, 1);
  EXPECT_TRUE(has(results.at(0).out, "as it should")) << results.at(0).out;
}

TEST(RankProcesses, ExpectAllOkShowsTheStandardErrorOfWhoFailed) {
  EXPECT_NONFATAL_FAILURE(expect_all_ok(run_ranks_as_processes("throws", 1)), "the rank threw: out of cheese");
  EXPECT_NONFATAL_FAILURE(expect_all_ok(run_ranks_as_processes("speaks_and_exits_with_its_rank", 2)),
                          "rank 1: exit code 1 after");
  EXPECT_NONFATAL_FAILURE(
      expect_all_ok(run_ranks_as_processes("passes_values_round", 1, {.expected = {{0, {.exit_code = 5}}}})),
      "expected exit code 5");
}

TEST(RankProcesses, TheEnvironmentReachesTheRanks) {
  const auto results = run_ranks_as_processes("prints_its_environment", 1, {.env = {"WEFT_TEST_COLOUR=blue"}});
  expect_all_ok(results);
  EXPECT_EQ(results.at(0).out, "blue same");
}

TEST(RankProcesses, RanksDieWithTheProcessThatStartedThem) {
  RankProcesses ranks("starts_a_rank_and_vanishes", 1);
  ranks.start();
  const pid_t inner = std::stoi(ranks.store().get("inner"));
  ranks.store().set("go", "");
  expect_all_ok(ranks.wait());
  EXPECT_TRUE(goes_away(inner));
}

TEST(RankProcesses, AHandleGivenUpLeavesNobodyBehind) {
  {
    RankProcesses ranks("says_ready_and_hangs", 3, {.deadline = Seconds(600)});  // beyond the watchdog: no way out
    ranks.start();
    ranks.store().get("ready 2");
  }
  expect_no_child_left();
}

TEST(RankProcesses, AnUnknownEntryIsRefusedWithTheListOfKnownOnes) {
  try {
    RankProcesses ranks("no_such_entry", 1);
    FAIL() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_TRUE(has(error.what(), "no WEFT_RANK_MAIN(no_such_entry)")) << error.what();
    EXPECT_TRUE(has(error.what(), "passes_values_round")) << error.what();
  }
}

}  // namespace
}  // namespace weft::test
