#include "weft/comm/faulty_group.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/support/ranks.h"
#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/comm/peer_lost.h"
#include "weft/comm/test_groups_impl.h"

namespace weft::comm {
namespace {

// Ranks as threads, each in a group with this script of faults.
void with_script(int world, const char* script, const std::function<void(Group&)>& body, double deadline_s = 40) {
  const Wrap wrap = [script](std::shared_ptr<Group> inner) {
    return make_faulty_group(std::move(inner), parse_faults(script));
  };
  test::run_ranks_as_threads(world, in_group(wrap, body, deadline_s));
}

TEST(FaultScript, IsRead) {
  const auto faults =
      parse_faults(" rank=1 at=5 op=all_reduce do=kill;rank=0  at=3 do=delay:0.2 when=after ;\n do=corrupt:13; ");
  ASSERT_EQ(faults.size(), 3);
  EXPECT_EQ(faults[0].action, FaultAction::kKill);
  EXPECT_EQ(faults[0].rank, 1);
  EXPECT_EQ(faults[0].at, 5);
  EXPECT_EQ(faults[0].operation, Operation::kAllReduce);
  EXPECT_FALSE(faults[0].after);
  EXPECT_EQ(faults[1].action, FaultAction::kDelay);
  EXPECT_EQ(faults[1].delay_s, 0.2);
  EXPECT_TRUE(faults[1].after);
  EXPECT_EQ(faults[2].action, FaultAction::kCorrupt);
  EXPECT_EQ(faults[2].byte, 13);
  EXPECT_FALSE(faults[2].rank || faults[2].operation);
  EXPECT_EQ(faults[2].at, 1);
  EXPECT_TRUE(parse_faults("").empty());
}

TEST(FaultScript, RefusesWhatItCannotRead) {
  const std::pair<const char*, const char*> cases[] = {
      {"rank=1", "it does not say do="},
      {"do=explode", "kill, stop, delay, corrupt, drop, throw"},
      {"do=delay", "'' is not a number from 0 to 86400"},
      {"do=delay:nan", "'nan' is not a number"},
      {"do=delay:-1", "'-1' is not a number"},
      {"do=corrupt:1.5", "'1.5' is not a number"},
      {"do=kill:9", "'kill' takes no number"},
      {"do=kill rank=x", "'x' is not a number from 0"},
      {"do=kill at=0", "'0' is not a number from 1"},
      {"do=kill op=allreduce", "barrier, all_reduce, reduce_scatter"},
      {"do=kill when=never", "when= is before or after"},
      {"do=kill do=stop", "do= is there twice"},
      {"do=drop when=after", "cannot be dropped after"},
      {"do=kill host=a", "made of do=, rank=, at=, op= and when="},
      {"kill", "made of do=, rank=, at=, op= and when="},
  };
  for (const auto& [script, says] : cases) {
    try {
      parse_faults(script);
      ADD_FAILURE() << script;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput) << script;
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
      EXPECT_NE(error.text().fix.find("do=kill"), std::string::npos) << "the fix shows the form";
    }
  }
}

TEST(FaultyGroup, ARankThatIsNotThereIsRefused) {
  const Wrap wrap = [](std::shared_ptr<Group> inner) {
    EXPECT_THROW(make_faulty_group(inner, parse_faults("rank=2 do=drop")), Error);
    return inner;
  };
  test::run_ranks_as_threads(2, in_group(wrap, [](Group& group) { group.barrier(); }));
}

TEST(FaultyGroup, HappensAtTheCallThatWasMeantAndOnce) {
  with_script(2, "rank=1 at=2 op=all_reduce do=throw", [](Group& group) {
    const at::Tensor data = at::full({4}, 1.0F);
    group.all_reduce(data);
    group.barrier();
    if (group.rank() == 1) {
      EXPECT_THROW(group.all_reduce(data), Error);
    }
    if (group.rank() == 0) group.all_reduce(data);
    if (group.rank() == 1) group.all_reduce(data);
    EXPECT_EQ(data.sum().item<float>(), 16);
  });
}

TEST(FaultyGroup, CorruptsTheInputBeforeOrTheOutputAfter) {
  // A byte of 0 becomes 255, and on the way it is added to.
  for (const bool after : {false, true}) {
    const char* script = after ? "rank=0 do=corrupt:1 when=after" : "rank=0 do=corrupt:1 when=before";
    with_script(2, script, [&](Group& group) {
      const at::Tensor data = at::zeros({3}, at::kByte);
      group.start(all_reduce(data)).wait();
      const bool is_hit = !after || group.rank() == 0;
      EXPECT_EQ(data.sum().item<int64_t>(), is_hit ? 255 : 0);
      EXPECT_EQ(data.select(0, 1).item<int64_t>(), is_hit ? 255 : 0);
    });
  }
}

TEST(FaultyGroup, AByteThatIsNotThereIsRefused) {
  with_script(1, "do=corrupt:8", [](Group& group) {
    EXPECT_THROW(group.all_reduce(at::zeros({2})), Error);
    group.all_reduce(at::zeros({2}));
  });
}

TEST(FaultyGroup, ADelayDelaysTheOthersToo) {
  with_script(2, "rank=0 do=delay:0.3", [](Group& group) {
    const Stopwatch watch;
    group.barrier();
    EXPECT_GE(watch.elapsed_s(), 0.25);
  });
}

TEST(FaultyGroup, ADroppedCallIsMissedByTheOthers) {
  const auto body = [](Group& group) {
    if (group.rank() == 1) {
      group.barrier();  // comes back at once
      return;
    }
    EXPECT_THROW(group.barrier(), PeerLost);
  };
  with_script(2, "rank=1 do=drop", body, 2);
}

TEST(FaultyGroup, PartsCountAlong) {
  with_script(2, "rank=1 at=3 do=throw", [](Group& group) {
    const auto part = group.split({1, 0}, "turned");
    group.barrier();
    part->barrier();
    if (group.rank() == 1) {
      EXPECT_THROW(part->barrier(), Error) << "its third call, though the part's second";
    }
  });
}

std::shared_ptr<Group> join_from(test::RankSelf& self, const std::string& script, double deadline_s) {
  const std::string run = cat("faulty-", self.dir().filename().string());
  auto inner = make_shm_group({.run_id = run, .rank = self.rank(), .world = self.world(), .deadline_s = deadline_s});
  return make_faulty_group(std::move(inner), parse_faults(script));
}

WEFT_RANK_MAIN(rank_1_is_killed) {
  const auto group = join_from(self, "rank=1 at=3 op=all_reduce do=kill", 30);
  const at::Tensor data = at::zeros({1000});
  try {
    for (int i = 0; i < 5; ++i) group->all_reduce(data);
  } catch (const PeerLost& lost) {
    EXPECT_EQ(lost.rank(), 1);
    EXPECT_EQ(lost.loss().kind, LossKind::kDied);
    return 0;
  }
  return 3;
}

TEST(FaultyGroup, AKilledRankIsMissedAtOnce) {
  expect_all_ok(test::run_ranks_as_processes("rank_1_is_killed", 3, {.expected = {{1, {.signal = SIGKILL}}}}));
}

WEFT_RANK_MAIN(rank_1_is_stopped) {
  const auto group = join_from(self, "rank=1 at=2 do=stop", 2);
  try {
    for (int i = 0; i < 3; ++i) group->barrier();
  } catch (const PeerLost& lost) {
    EXPECT_EQ(lost.rank(), 1);
    EXPECT_EQ(lost.loss().kind, LossKind::kSilent);
    self.store().set("missed", "rank 1");
    return 0;
  }
  return 3;
}

TEST(FaultyGroup, AStoppedRankIsSilent) {
  test::RankProcesses ranks("rank_1_is_stopped", 2, {.expected = {{1, {.signal = SIGKILL}}}});
  ranks.start();
  EXPECT_EQ(ranks.store().get("missed"), "rank 1");
  ranks.signal(1, SIGKILL);
  expect_all_ok(ranks.wait());
}

}  // namespace
}  // namespace weft::comm
