#include "weft/comm/c10d/roll_call.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "tests/support/ranks.h"
#include "weft/base/text.h"
#include "weft/comm/c10d/c10d_test_impl.h"
#include "weft/comm/c10d/roll_call_records_impl.h"

namespace weft::comm {
namespace {

Doing collective(uint64_t sequence) {
  return {.operation = Operation::kAllReduce, .sequence = sequence, .call = "all_reduce of 4 bytes"};
}

GroupIdentity member(int rank, int world, double deadline_s = 1) { return {"world", rank, world, deadline_s}; }

// What the rank's group ended with, as soon as it has.
template <typename Expected>
Expected end_of(RollCall& roll_call) {
  const Stopwatch watch;
  while (!roll_call.has_ended() && watch.elapsed_s() < 20) std::this_thread::yield();
  try {
    roll_call.throw_cause();
  } catch (const Expected& error) {
    return error;
  }
}

TEST(RollCallRecords, ReadBackAsWritten) {
  Verdict verdict;
  verdict.loss = {LossKind::kLeft, 3, "node\n1", 77, "barrier, call 2", "all_reduce, call 3", "world", "line\nline"};
  const Verdict read = verdict_from(to_text(verdict));
  EXPECT_EQ(read.kind, Verdict::Kind::kLost);
  EXPECT_EQ(read.loss.kind, LossKind::kLeft);
  EXPECT_EQ(read.loss.rank, 3);
  EXPECT_EQ(read.loss.host, "node 1");
  EXPECT_EQ(read.loss.waiting_in, "all_reduce, call 3");
  EXPECT_EQ(read.loss.detail, "line line");
  const Beat beat = {9, Presence::kTold, 4, 5, Operation::kGather, true, ~0ULL, "gather"};
  EXPECT_EQ(to_text(beat_from(to_text(beat))), to_text(beat));
  EXPECT_EQ(to_text(member_from(to_text(Member::self(4, true)))).find("nonsense"), std::string::npos);
  EXPECT_THROW(beat_from("1\n2\n"), Error);
}

TEST(RollCall, BeatsTenTimesWithinTheDeadlineAndNeverTooOften) {
  EXPECT_DOUBLE_EQ(beat_interval_s(5), 0.5);
  EXPECT_DOUBLE_EQ(beat_interval_s(0.01), 0.05);
  EXPECT_DOUBLE_EQ(beat_interval_s(600), 2);
}

TEST(RollCall, ARankThatNeverComesIsNamed) {
  const Store store = Store::in_process();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const int rank = ctx.rank() * 2;  // 0 and 2 of 4
    try {
      const RollCall roll_call(member(rank, 4), store, Deadline::after(0.2));
      ADD_FAILURE() << "all there";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), 1);
      EXPECT_EQ(lost.loss().kind, LossKind::kSilent);
      EXPECT_EQ(lost.loss().pid, 0);
      EXPECT_EQ(lost.loss().detail, "never came: rank 1, 3");
    }
  });
}

TEST(RollCall, TwoWithOneNumberAreBothTold) {
  const Store store = Store::in_process();
  std::mutex mutex;
  std::set<std::string> texts;
  test::run_ranks_as_threads(3, [&](test::RankContext& ctx) {
    try {
      RollCall roll_call(member(std::min(ctx.rank(), 1), 2, 5), store, Deadline::after(10.0));
      throw Error(end_of<Error>(roll_call));  // the first two may have met before the third came
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2) << error.what();
      const std::lock_guard lock(mutex);
      texts.insert(error.text().what);
    }
  });
  ASSERT_EQ(texts.size(), 1U);
  const std::string self = Member::self(2, false).who();
  EXPECT_EQ(*texts.begin(), cat("rank 1 is ", self, ", and also ", self));
}

TEST(RollCall, WorldsThatDifferAreTold) {
  const Store store = Store::in_process();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    try {
      const RollCall roll_call(member(ctx.rank(), 2 + ctx.rank()), store, Deadline::after(10.0));
      ADD_FAILURE() << "joined";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2) << error.what();
      EXPECT_NE(error.text().what.find("says that there are "), std::string::npos) << error.what();
    }
  });
}

TEST(RollCall, ARankThatLeavesIsMissedOnlyByThoseWhoNeedIt) {
  const Store store = Store::in_process();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    auto roll_call = std::make_unique<RollCall>(member(ctx.rank(), 2, 60), store, Deadline::after(10.0));
    roll_call->begin(collective(1));
    ctx.barrier();
    if (ctx.rank() == 1) {
      roll_call->done(collective(1));
      roll_call.reset();
      ctx.set("left", "");
      return;
    }
    ctx.get("left");
    roll_call->done(collective(1));
    EXPECT_FALSE(roll_call->has_ended());
    roll_call->begin(collective(2));
    const auto lost = end_of<PeerLost>(*roll_call);
    EXPECT_EQ(lost.rank(), 1);
    EXPECT_EQ(lost.loss().kind, LossKind::kLeft);
    EXPECT_EQ(lost.loss().last_collective, "all_reduce, call 1");
    EXPECT_EQ(lost.loss().waiting_in, "all_reduce, call 2");
  });
}

TEST(RollCall, ALateRankIsBlamedAndReadsItItself) {
  const Store store = Store::in_process();
  test::run_ranks_as_threads(3, [&](test::RankContext& ctx) {
    RollCall roll_call(member(ctx.rank(), 3), store, Deadline::after(10.0));
    bool called_back = false;
    roll_call.begin(collective(1));
    roll_call.done(collective(1));
    if (ctx.rank() != 1) roll_call.begin(collective(2));
    // A deadline leaves time for many beats.
    const auto heard = [&](int rank) {
      return beat_from(store.get(cat("world/beat/", rank), Deadline::never())).num_begun;
    };
    while (heard(2) < 2 || heard(0) < 2 || heard(1) < 1) std::this_thread::yield();
    ctx.barrier();
    try {
      if (ctx.rank() == 0) roll_call.throw_cause({.timed_out = true, .suspect = 2, .text = "late"});
      throw PeerLost(end_of<PeerLost>(roll_call));
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), 1);
      EXPECT_EQ(lost.loss().kind, LossKind::kSilent);
      EXPECT_EQ(lost.loss().detail, "late");
      EXPECT_EQ(lost.loss().host, Member::self(3, false).host);
    }
    roll_call.on_end([&] { called_back = true; });
    EXPECT_TRUE(called_back);
    EXPECT_THROW(roll_call.begin(collective(3)), PeerLost);
  });
}

TEST(RollCall, AFailedMessageBlamesTheOtherEnd) {
  const Store store = Store::in_process();
  test::run_ranks_as_threads(3, [&](test::RankContext& ctx) {
    RollCall roll_call(member(ctx.rank(), 3), store, Deadline::after(10.0));
    ctx.barrier();
    if (ctx.rank() == 0) {
      roll_call.begin({.operation = Operation::kRecv, .peer = 2});
      EXPECT_THROW(roll_call.throw_cause({.timed_out = true, .suspect = 2, .text = "late"}), PeerLost);
    }
    const auto lost = end_of<PeerLost>(roll_call);
    EXPECT_EQ(lost.rank(), 2);
    EXPECT_EQ(lost.loss().waiting_in, "recv from rank 2");
    ctx.barrier();
  });
}

}  // namespace
}  // namespace weft::comm
