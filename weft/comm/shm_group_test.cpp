#include "weft/comm/shm_group.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/comm/peer_lost.h"
#include "weft/comm/test_groups_impl.h"
#include "weft/monitor/host_name.h"

namespace weft::comm {
namespace {

using test::RankContext;
using test::run_ranks_as_threads;

std::shared_ptr<Group> join_shm(const std::string& run, int rank, int world, double deadline_s = 30 * test::kSlowdown) {
  return make_shm_group({.run_id = run, .rank = rank, .world = world, .deadline_s = deadline_s});
}

void with_shm_groups(int world, const std::function<void(Group&)>& body) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(world, [&](RankContext& ctx) { body(*join_shm(run, ctx.rank(), world)); });
}

TEST(ShmGroup, AllocatedMemoryIsWorkedOnWhereItLies) {
  with_shm_groups(3, [](Group& group) {
    const at::Tensor bucket = group.allocate(300'000, at::kFloat);
    EXPECT_EQ(bucket.sum().item<float>(), 0) << "fresh memory is zero";
    const at::Tensor part = bucket.slice(0, 1000, 250'000);
    part.fill_(static_cast<float>(group.rank() + 1));
    group.all_reduce(part);
    EXPECT_TRUE(part.eq(6).all().item<bool>());
    EXPECT_TRUE(bucket.slice(0, 0, 1000).eq(0).all().item<bool>()) << "only the view changes";
    EXPECT_TRUE(bucket.slice(0, 250'000).eq(0).all().item<bool>());
  });
}

TEST(ShmGroup, AGatherInPlaceFillsTheOthersParts) {
  with_shm_groups(3, [](Group& group) {
    const at::Tensor whole = group.allocate(300'001, at::kInt);
    const auto counts = split_evenly(whole.numel(), 3);
    int64_t first = 0;
    for (int r = 0; r < group.rank(); ++r) first += counts[static_cast<size_t>(r)];
    const at::Tensor mine = whole.slice(0, first, first + counts[static_cast<size_t>(group.rank())]);
    mine.copy_(at::arange(first, first + mine.numel(), at::kInt));
    group.all_gather(mine, whole);
    EXPECT_TRUE(whole.equal(at::arange(300'001, at::kInt)));
  });
}

TEST(ShmGroup, ReadsWhatAPeerHas) {
  with_shm_groups(2, [](Group& group) {
    EXPECT_TRUE(group.one_sided());
    const at::Tensor mine = group.allocate(10, at::kLong);
    mine.fill_(group.rank() * 7);
    group.barrier();
    at::Tensor into = at::full({4}, -1, at::kLong);
    group.read(1, mine.slice(0, 2, 6), into);
    EXPECT_TRUE(into.eq(7).all().item<bool>());
    EXPECT_THROW(group.read(1, at::zeros({4}, at::kLong), into), Error);
    group.barrier();
  });
}

TEST(ShmGroup, CommonMemoryIsOneForAll) {
  with_shm_groups(3, [](Group& group) {
    EXPECT_TRUE(group.shares_memory());
    const at::Tensor all = group.allocate_common(3 * 1000, at::kInt);
    EXPECT_TRUE(all.eq(0).all().item<bool>()) << "fresh memory is zero";
    group.barrier();
    all.slice(0, group.rank() * 1000, (group.rank() + 1) * 1000).fill_(group.rank() + 5);
    group.barrier();
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_TRUE(all.slice(0, rank * 1000, (rank + 1) * 1000).eq(rank + 5).all().item<bool>()) << rank;
    group.barrier();
  });
}

TEST(ShmGroup, MemoryOutlivesTheGroup) {
  at::Tensor kept[2];
  with_shm_groups(2, [&](Group& group) {
    kept[group.rank()] = group.allocate(100, at::kFloat);
    kept[group.rank()].fill_(3);
    group.barrier();
  });
  EXPECT_EQ(kept[0].sum().item<float>() + kept[1].sum().item<float>(), 600);
}

TEST(ShmGroup, RunsAsynchronouslyAndInOrder) {
  with_shm_groups(3, [](Group& group) {
    const at::Tensor data = at::ones({100'000});
    std::vector<Work> works;
    for (int i = 0; i < 10; ++i) works.push_back(group.start(all_reduce(data)));
    group.barrier();  // waits for what is queued
    for (const Work& work : works) {
      EXPECT_TRUE(work.done());
      EXPECT_GT(work.finished_ns(), 0);
      work.wait();
    }
    EXPECT_TRUE(data.eq(59049).all().item<bool>()) << "3 to the power of 10";
  });
}

TEST(ShmGroup, TwoRanksMayExchangeLongMessages) {
  with_shm_groups(2, [](Group& group) {
    const int peer = 1 - group.rank();
    const at::Tensor out = at::full({1'000'000}, group.rank(), at::kInt), in = at::empty({1'000'000}, at::kInt);
    const Work sent = group.start(send(out, peer)), received = group.start(recv(in, peer));
    received.wait();
    sent.wait();
    EXPECT_TRUE(in.eq(peer).all().item<bool>());
  });
}

TEST(ShmGroup, PartsFormGroupsOfTheirOwn) {
  with_shm_groups(4, [](Group& group) {
    const bool even = group.rank() % 2 == 0;
    const auto part = group.split(even ? std::vector{2, 0} : std::vector{1, 3}, even ? "even" : "odd");
    EXPECT_EQ(part->world(), 2);
    EXPECT_EQ(part->rank(), group.rank() == 2 || group.rank() == 1 ? 0 : 1);
    const at::Tensor data = at::full({5}, group.rank());
    part->all_reduce(data);
    EXPECT_TRUE(data.eq(even ? 2 : 4).all().item<bool>());
    EXPECT_THROW(group.split({(group.rank() + 1) % 4}, "others"), Error);
  });
}

TEST(ShmGroup, WhoCallsSomethingElseIsNamed) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(3, [&](RankContext& ctx) {
    const auto group = join_shm(run, ctx.rank(), 3);
    const at::Tensor data = at::zeros({ctx.rank() == 1 ? 10 : 20});
    try {
      group->all_reduce(data);
      ADD_FAILURE() << "sizes differ";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBug) << error.what();
      EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
    }
    EXPECT_THROW(group->barrier(), Error) << "and the group is over";
  });
}

TEST(ShmGroup, APeerThatLeavesIsNamedWithWhatItDidLast) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(3, [&](RankContext& ctx) {
    auto group = join_shm(run, ctx.rank(), 3);
    group->all_reduce(at::zeros({3}));
    if (ctx.rank() == 2) return;
    try {
      group->barrier();
      ADD_FAILURE() << "rank 2 has left";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), 2);
      EXPECT_EQ(lost.loss().kind, LossKind::kLeft);
      EXPECT_EQ(lost.loss().host, this_host_name());
      EXPECT_EQ(lost.loss().last_collective, "all_reduce");
    }
    EXPECT_THROW(group->start(barrier()).wait(), PeerLost);
  });
}

TEST(ShmGroup, APeerThatDoesNotComeIsNamedAtTheDeadline) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(2, [&](RankContext& ctx) {
    const auto group = join_shm(run, ctx.rank(), 2, 0.3);
    if (ctx.rank() == 1) return ctx.barrier();
    try {
      group->all_reduce(at::zeros({1}));
      ADD_FAILURE() << "rank 1 never came";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), 1);
      EXPECT_EQ(lost.loss().kind, LossKind::kSilent);
    }
    ctx.barrier();
  });
}

}  // namespace
}  // namespace weft::comm
