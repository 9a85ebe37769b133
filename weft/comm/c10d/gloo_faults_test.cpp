// Ranks that die, stop, leave and are slow in the middle of collectives over TCP: the others name them, in time.
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/ranks.h"
#include "weft/comm/c10d/c10d_test_impl.h"
#include "weft/comm/c10d/roll_call.h"

namespace weft::comm {
namespace {

using test::concat;
using test::RankProcesses;

constexpr double kDeadlineS = 2;

Store join_store(test::RankSelf& self, int server = 0) {
  const Deadline deadline = Deadline::after(30.0);
  if (self.rank() != server) return Store::tcp({"127.0.0.1", std::stoi(self.store().get("port"))}, false, deadline);
  const Store store = Store::tcp({"127.0.0.1", 0}, true, deadline);
  self.store().set("port", std::to_string(store.endpoint().port));
  return store;
}

PeerLost loss_in_a_loop(Group& group, const std::function<void()>& ready) {
  const at::Tensor small = at::ones({100}), large = at::ones({1'000'000});
  try {
    for (int round = 0;; ++round) {
      group.all_reduce(small, ReduceOp::kMean);
      group.all_reduce(large, ReduceOp::kMean);
      group.barrier();
      if (round == 2) ready();
    }
  } catch (const PeerLost& lost) {
    return lost;
  }
}

WEFT_RANK_MAIN(works_over_gloo_until_a_peer_is_lost) {
  const auto group =
      make_gloo_group({"world", self.rank(), self.world(), kDeadlineS}, join_store(self), Deadline::after(30.0));
  const PeerLost lost = loss_in_a_loop(*group, [&] { self.store().set(concat("ready ", self.rank()), ""); });
  self.store().set(concat("rank lost by ", self.rank()), std::to_string(lost.rank()));
  self.store().set(concat("text of ", self.rank()), lost.what());
  const Stopwatch watch;
  EXPECT_THROW(group->barrier(), PeerLost);
  EXPECT_LT(watch.elapsed_s(), 1.0);
  return 0;
}

struct LostRank {
  int victim;
  int signal;
};

class GlooFaults : public testing::TestWithParam<LostRank> {};
INSTANTIATE_TEST_SUITE_P(Each, GlooFaults,
                         testing::Values(LostRank{0, SIGKILL}, LostRank{1, SIGKILL}, LostRank{2, SIGKILL},
                                         LostRank{0, SIGSTOP}, LostRank{1, SIGSTOP}, LostRank{2, SIGSTOP}),
                         [](const auto& each) {
                           return concat(each.param.signal == SIGKILL ? "Kill" : "Stop", each.param.victim);
                         });

void expect_named(RankProcesses& ranks, int by, int victim) {
  try {
    const test::Seconds within(5 * kDeadlineS);
    EXPECT_EQ(ranks.store().get(concat("rank lost by ", by), within), std::to_string(victim));
    const std::string text = ranks.store().get(concat("text of ", by), within);
    EXPECT_NE(text.find(concat("process ", ranks.pid(victim))), std::string::npos) << text;
    EXPECT_NE(text.find("last seen in: "), std::string::npos) << text;
  } catch (const test::TimedOut& late) {
    ADD_FAILURE() << late.what();  // what became of it is in its result
  }
}

TEST_P(GlooFaults, EverySurvivorNamesTheRankWithinTwiceTheDeadline) {
  const auto [victim, signal] = GetParam();
  RankProcesses ranks("works_over_gloo_until_a_peer_is_lost", 3,
                      {.deadline = test::Seconds(25), .expected = {{victim, {.signal = SIGKILL}}}});
  ranks.start();
  for (int rank = 0; rank < 3; ++rank) ranks.store().get(concat("ready ", rank));
  const Stopwatch watch;
  ASSERT_TRUE(ranks.signal(victim, signal));
  for (int rank = 0; rank < 3; ++rank)
    if (rank != victim) expect_named(ranks, rank, victim);
  EXPECT_LT(watch.elapsed_s(), 2 * kDeadlineS);
  RecordProperty("seconds", std::to_string(watch.elapsed_s()));
  if (signal != SIGKILL) ranks.signal(victim, SIGKILL);
  expect_all_ok(ranks.wait());
}

// Rank 1 dies, rank 0 hears of it elsewhere and leaves; between two beats of rank 2, which waits for both.
WEFT_RANK_MAIN(leaves_as_a_peer_has_died) {
  auto roll_call = std::make_unique<RollCall>(GroupIdentity{"lane", self.rank(), self.world(), 60},
                                              join_store(self, /*server=*/2), Deadline::after(30.0));
  self.store().set(concat("ready ", self.rank()), "");
  if (self.rank() == 1) {
    for (;;) ::pause();
  }
  if (self.rank() == 0) {
    self.store().get("one is dead");
    return 0;
  }
  roll_call->begin({.operation = Operation::kAllReduce, .sequence = 1, .call = "all_reduce of 4 bytes"});
  const Stopwatch watch;
  while (!roll_call->has_ended() && watch.elapsed_s() < 20) std::this_thread::yield();
  try {
    roll_call->throw_cause();
  } catch (const PeerLost& lost) {
    self.store().set("rank lost by 2", std::to_string(lost.rank()));
    self.store().set("text of 2", lost.what());
  }
  return 0;
}

TEST(GlooFaultsOfProcesses, OneThatDiedIsNamedAndNotWhoLeftForThat) {
  RankProcesses ranks("leaves_as_a_peer_has_died", 3,
                      {.deadline = test::Seconds(60), .expected = {{1, {.signal = SIGKILL}}}});
  ranks.start();
  for (int rank = 0; rank < 3; ++rank) ranks.store().get(concat("ready ", rank));
  ASSERT_TRUE(ranks.signal(1, SIGKILL));
  ranks.store().set("one is dead", "");
  EXPECT_EQ(ranks.store().get("rank lost by 2", test::Seconds(30)), "1") << ranks.store().get("text of 2");
  expect_all_ok(ranks.wait());
}

TEST(GlooFaultsInThreads, ASlowRankIsLostAtTheDeadlineAndNotBefore) {
  const Store store = Store::in_process();
  test::run_ranks_as_threads(3, [&](test::RankContext& ctx) {
    const auto group = make_gloo_group({"world", ctx.rank(), 3, 1}, store, Deadline::after(30.0));
    group->barrier();
    const Stopwatch watch;
    if (ctx.rank() == 2) ctx.get("told 0"), ctx.get("told 1");
    try {
      group->all_reduce(at::ones({50'000}));
      ADD_FAILURE() << "all came";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), 2);
      EXPECT_EQ(lost.loss().kind, LossKind::kSilent);
      EXPECT_EQ(lost.loss().last_collective, "barrier, call 1");
    }
    EXPECT_GT(watch.elapsed_s(), 0.9);
    EXPECT_LT(watch.elapsed_s(), 2.0 * test::kSlowdown);
    ctx.set(concat("told ", ctx.rank()), "");
  });
}

TEST(GlooFaultsInThreads, ARankThatLeavesIsNamedLongBeforeTheDeadline) {
  const Store store = Store::in_process();
  test::run_ranks_as_threads(3, [&](test::RankContext& ctx) {
    const auto group = make_gloo_group({"world", ctx.rank(), 3, 20}, store, Deadline::after(30.0));
    group->barrier();
    if (ctx.rank() == 1) return;
    const Stopwatch watch;
    try {
      group->all_reduce(at::ones({50'000}));
      ADD_FAILURE() << "all came";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), 1);
      EXPECT_EQ(lost.loss().kind, LossKind::kLeft) << lost.what();
    }
    EXPECT_LT(watch.elapsed_s(), 15);
  });
}

}  // namespace
}  // namespace weft::comm
