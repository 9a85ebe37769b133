// Ranks that die, stop, leave and disagree: the others name them, soon, and all the same one.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/comm/fabric/fabric.h"
#include "weft/comm/fabric/test_data_impl.h"

namespace weft::fabric {
namespace {

using test::concat;
using test::RankContext;
using test::RankProcesses;
using test::run_ranks_as_threads;

constexpr Elements kFloatSum{ElementType::kFloat32, ReduceOp::kSum};

// Collectives of several kinds until one throws PeerLost; `ready` is called after the first round.
template <typename Ready>
PeerLost loss_in_a_loop(Fabric& fabric, double limit_s, Ready ready) {
  std::vector<float> small(100), large(200'000);
  Region region = fabric.allocate(1 << 20, Deadline::after(30.0));
  try {
    for (int round = 0;; ++round) {
      fabric.all_reduce(small.data(), small.size(), kFloatSum, Deadline::after(limit_s));
      fabric.all_reduce(large.data(), large.size(), kFloatSum, Deadline::after(limit_s));
      fabric.all_reduce(region.at(0), 200'000, kFloatSum, Deadline::after(limit_s));
      fabric.barrier(Deadline::after(limit_s));
      if (round == 0) ready();
    }
  } catch (const PeerLost& lost) {
    return lost;
  }
}

// What every later call says, and that it says it at once.
void expect_the_same_again(Fabric& fabric, const PeerLost& lost) {
  const Stopwatch watch;
  try {
    fabric.barrier(Deadline::after(60.0));
    ADD_FAILURE() << "the fabric still works";
  } catch (const PeerLost& again) {
    EXPECT_STREQ(again.what(), lost.what());
  }
  EXPECT_LT(watch.elapsed_s(), 1.0 * test::kSlowdown);
}

WEFT_RANK_MAIN(works_until_a_peer_dies) {
  Fabric fabric({self.dir().string(), self.rank(), self.world()}, Deadline::after(30.0));
  const PeerLost lost = loss_in_a_loop(fabric, 600, [&] { self.store().set(concat("ready ", self.rank()), ""); });
  EXPECT_EQ(lost.rank(), 1);
  EXPECT_EQ(lost.loss_kind(), LossKind::kDied);
  EXPECT_GT(lost.sequence(), 4U);
  EXPECT_NE(lost.text().title.find("rank 1 of 3 died"), std::string::npos) << lost.what();
  EXPECT_NE(lost.text().what.find("its last call: "), std::string::npos) << lost.what();
  expect_the_same_again(fabric, lost);
  self.store().set(concat("lost ", self.rank()), lost.what());
  return 0;
}

TEST(FabricFaults, AKilledRankIsNamedByAllLongBeforeTheDeadline) {
  for (int repetition = 0; repetition < 3; ++repetition) {
    RankProcesses ranks("works_until_a_peer_dies", 3, {.expected = {{1, {.signal = SIGKILL}}}});
    ranks.start();
    for (int rank = 0; rank < 3; ++rank) ranks.store().get(concat("ready ", rank));
    const Stopwatch watch;
    ASSERT_TRUE(ranks.signal(1, SIGKILL));
    const std::string by_0 = ranks.store().get("lost 0"), by_2 = ranks.store().get("lost 2");
    EXPECT_LT(watch.elapsed_s(), 5.0 * test::kSlowdown);
    EXPECT_EQ(by_0, by_2);
    EXPECT_NE(by_0.find(concat("process ", ranks.pid(1))), std::string::npos) << by_0;
    expect_all_ok(ranks.wait());
  }
}

WEFT_RANK_MAIN(works_until_a_peer_stops) {
  Fabric fabric({self.dir().string(), self.rank(), self.world()}, Deadline::after(30.0));
  constexpr double kLimitS = 1.5;
  const PeerLost lost = loss_in_a_loop(fabric, kLimitS, [&] { self.store().set(concat("ready ", self.rank()), ""); });
  EXPECT_EQ(lost.rank(), 1);
  EXPECT_EQ(lost.loss_kind(), LossKind::kSilent);
  EXPECT_NE(lost.text().title.find("rank 1 of 3 did not arrive in time"), std::string::npos) << lost.what();
  EXPECT_NE(lost.text().what.find("not there by the deadline: rank 1"), std::string::npos) << lost.what();
  expect_the_same_again(fabric, lost);
  self.store().set(concat("lost ", self.rank()), lost.what());
  return 0;
}

TEST(FabricFaults, AStoppedRankIsNamedAtTheDeadlineAndReadsItItselfLater) {
  RankProcesses ranks("works_until_a_peer_stops", 3);
  ranks.start();
  for (int rank = 0; rank < 3; ++rank) ranks.store().get(concat("ready ", rank));
  ASSERT_TRUE(ranks.signal(1, SIGSTOP));
  const std::string by_0 = ranks.store().get("lost 0"), by_2 = ranks.store().get("lost 2");
  EXPECT_EQ(by_0, by_2);
  ASSERT_TRUE(ranks.signal(1, SIGCONT));
  EXPECT_EQ(ranks.store().get("lost 1"), by_0);
  expect_all_ok(ranks.wait());
}

WEFT_RANK_MAIN(waits_for_a_segment_from_a_dead_rank) {
  Fabric fabric({self.dir().string(), self.rank(), self.world()}, Deadline::after(30.0));
  if (self.rank() == 0) ::raise(SIGKILL);
  try {
    fabric.allocate(4096, Deadline::after(600.0));
    ADD_FAILURE() << "allocated";
  } catch (const PeerLost& lost) {
    EXPECT_EQ(lost.rank(), 0) << lost.what();
    EXPECT_EQ(lost.loss_kind(), LossKind::kDied) << lost.what();
  }
  return 0;
}

TEST(FabricFaults, AnAllocationEndsWithTheRankThatMakesIt) {
  expect_all_ok(test::run_ranks_as_processes("waits_for_a_segment_from_a_dead_rank", 3,
                                             {.expected = {{0, {.signal = SIGKILL}}}}));
}

TEST(FabricFaults, ARankThatLeavesIsNamed) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(3, [&](RankContext& ctx) {
    Fabric fabric({run, ctx.rank(), 3}, Deadline::after(30.0));
    if (ctx.rank() == 2) return;
    try {
      fabric.barrier(Deadline::after(600.0));
      ADD_FAILURE() << "the barrier let us through";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), 2);
      EXPECT_EQ(lost.loss_kind(), LossKind::kLeft);
      EXPECT_EQ(lost.text().title, "rank 2 of 3 left while others waited for it");
      expect_the_same_again(fabric, lost);
    }
  });
  EXPECT_EQ(num_mapped_segments(), 0U);
}

TEST(FabricFaults, LeavingAfterTheLastCallDisturbsNobody) {
  for (int repetition = 0; repetition < 50; ++repetition) {
    const std::string run = fresh_run_id();
    run_ranks_as_threads(4, [&](RankContext& ctx) {
      Fabric fabric({run, ctx.rank(), 4}, Deadline::after(30.0));
      fabric.barrier(Deadline::after(30.0));
    });
  }
}

TEST(FabricFaults, CallsThatDifferAreToldToBoth) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(2, [&](RankContext& ctx) {
    Fabric fabric({run, ctx.rank(), 2}, Deadline::after(30.0));
    std::vector<float> data(8);
    try {
      fabric.all_reduce(data.data(), ctx.rank() == 0 ? 8 : 7, kFloatSum, Deadline::after(30.0));
      ADD_FAILURE() << "reduced 7 and 8";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBug);
      EXPECT_NE(error.text().what.find("all_reduce of 28 bytes"), std::string::npos) << error.what();
      EXPECT_NE(error.text().what.find("all_reduce of 32 bytes"), std::string::npos) << error.what();
    }
    EXPECT_THROW(fabric.barrier(Deadline::after(30.0)), Error);
  });
}

TEST(FabricFaults, AnExpiredDeadlineNamesTheLateRank) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(2, [&](RankContext& ctx) {
    Fabric fabric({run, ctx.rank(), 2}, Deadline::after(30.0));
    if (ctx.rank() == 1) ctx.get("told");
    try {
      fabric.barrier(Deadline::after(0.05));
      ADD_FAILURE() << "arrived";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), 1);
      EXPECT_EQ(lost.operation(), Operation::kAllocate) << lost.what();
    }
    ctx.set("told", "");
  });
}

}  // namespace
}  // namespace weft::fabric
