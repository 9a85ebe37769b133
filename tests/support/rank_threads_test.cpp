#include "tests/support/rank_threads.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "tests/support/test_helpers.h"

extern "C" [[gnu::noinline]] void weft_test_rank_thread_hangs_here() {
  while (true) ::pause();
}

namespace weft::test {
namespace {

// What run_ranks_as_threads throws; fails the test when it does not.
RanksFailed failure_of(int world, const std::function<void(RankContext&)>& body) {
  try {
    run_ranks_as_threads(world, body);
  } catch (const RanksFailed& failed) {
    return failed;
  }
  ADD_FAILURE() << "no rank failed";
  return RanksFailed("", {});
}

class RankThreads : public testing::TestWithParam<int> {};

TEST_P(RankThreads, EveryRankRunsOnce) {
  std::vector<std::atomic<int>> num_runs(GetParam());
  run_ranks_as_threads(GetParam(), [&](RankContext& ctx) {
    EXPECT_EQ(ctx.world(), GetParam());
    ++num_runs.at(ctx.rank());
  });
  for (const auto& runs : num_runs) EXPECT_EQ(runs, 1);
}

TEST_P(RankThreads, ABarrierHoldsUntilAllHaveArrived) {
  std::atomic<int> num_arrived{0};
  run_ranks_as_threads(GetParam(), [&](RankContext& ctx) {
    for (int round = 1; round <= 50; ++round) {
      ++num_arrived;
      ctx.barrier();
      EXPECT_GE(num_arrived, round * ctx.world());
      ctx.barrier();
      EXPECT_LE(num_arrived, (round + 1) * ctx.world());
    }
  });
}

TEST_P(RankThreads, ValuesReachTheOtherRanks) {
  run_ranks_as_threads(GetParam(), [](RankContext& ctx) {
    const int next = (ctx.rank() + 1) % ctx.world();
    ctx.set(concat("to ", next), concat("from ", ctx.rank()));
    const int before = (ctx.rank() + ctx.world() - 1) % ctx.world();
    EXPECT_EQ(ctx.get(concat("to ", ctx.rank())), concat("from ", before));
    ctx.add("sum", ctx.rank() + 1);
    ctx.barrier();
    EXPECT_EQ(ctx.add("sum", 0), ctx.world() * (ctx.world() + 1) / 2);
  });
}

TEST_P(RankThreads, AFailureNamesItsRankAndFreesTheOthers) {
  const int last = GetParam() - 1;
  const auto failed = failure_of(GetParam(), [&](RankContext& ctx) {
    if (ctx.rank() == last) throw std::runtime_error("out of cheese");
    ctx.rank() % 2 == 0 ? ctx.barrier() : (void)ctx.get("never set");
  });
  ASSERT_EQ(failed.failures().size(), static_cast<size_t>(GetParam()));
  const auto& cause = failed.failures().front();
  EXPECT_EQ(cause.rank, last);
  EXPECT_EQ(cause.message, "out of cheese");
  EXPECT_FALSE(cause.from_peer);
  EXPECT_THROW(std::rethrow_exception(cause.exception), std::runtime_error);
  for (size_t i = 1; i < failed.failures().size(); ++i) {
    EXPECT_TRUE(failed.failures()[i].from_peer);
    EXPECT_NE(failed.failures()[i].message.find("failed: "), std::string::npos) << failed.what();
  }
  EXPECT_NE(std::string(failed.what()).find(concat("\nrank ", last, ": out of cheese")), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Worlds, RankThreads, testing::Values(1, 2, 3, 8));

TEST(RankThreads, ARankThatReturnsEarlyFreesABarrier) {
  const auto failed = failure_of(2, [](RankContext& ctx) {
    if (ctx.rank() == 0) ctx.barrier();
  });
  EXPECT_STREQ(failed.what(), "1 of 2 ranks failed\nrank 0: rank 0 in barrier 0: rank 1 returned without arriving");
}

TEST(RankThreads, ARankThatReturnsEarlyFreesTheLastOneThatWaitsForAValue) {
  const auto failed = failure_of(2, [](RankContext& ctx) {
    if (ctx.rank() == 1) ctx.get("never set");
  });
  EXPECT_STREQ(failed.what(),
               "1 of 2 ranks failed\nrank 1: rank 1 waiting for 'never set': every other rank has returned");
}

TEST(RankThreads, AWaitEndsAtItsOwnDeadline) {
  run_ranks_as_threads(2, [](RankContext& ctx) {
    if (ctx.rank() == 0) {
      EXPECT_THROW(ctx.get("late", Seconds(0.02)), TimedOut);
      EXPECT_THROW(ctx.barrier(Seconds(0.02)), TimedOut);
      ctx.set("now", "");
    } else {
      ctx.get("now");
    }
    ctx.barrier();  // the one that timed out left no trace
  });
}

TEST(RankThreads, ATimedOutBarrierNamesTheMissingRanks) {
  run_ranks_as_threads(3, [](RankContext& ctx) {
    if (ctx.rank() == 0) {
      try {
        ctx.barrier(Seconds(0.02));
        ADD_FAILURE() << "barrier() returned";
      } catch (const TimedOut& error) {
        EXPECT_STREQ(error.what(), "rank 0 in barrier 0: not within 0.02 s; not in the barrier: rank 1, rank 2");
      }
      ctx.set("now", "");
    }
    ctx.get("now");
  });
}

TEST(RankThreads, ThrowsWhatIsNoStdException) {
  const auto failed = failure_of(1, [](RankContext&) { throw 7; });
  EXPECT_STREQ(failed.what(), "1 of 1 ranks failed\nrank 0: an exception that is no std::exception");
}

TEST(RankThreads, AWorldNeedsARank) {
  EXPECT_THROW(run_ranks_as_threads(0, [](RankContext&) {}), std::invalid_argument);
}

// Run by the test below, in a process of its own.
TEST(RankThreadsHang, DISABLED_OneOfThree) {
  run_ranks_as_threads(3,
                       [](RankContext& ctx) {
                         if (ctx.rank() == 1) weft_test_rank_thread_hangs_here();
                       },
                       {.deadline = Seconds(1)});
}

TEST(RankThreads, AHangEndsTheProcessWithStacks) {
  const auto result = run_test_again("RankThreadsHang.DISABLED_OneOfThree");
  EXPECT_EQ(result.exit_code, kHungExitCode) << result.err;
  EXPECT_NE(result.err.find("rank 1 of 3 did not finish within"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("weft_test_rank_thread_hangs_here"), std::string::npos) << result.err;
  expect_no_child_left();
}

}  // namespace
}  // namespace weft::test
