// Every operation over Gloo against a plain reference, for all types, odd worlds and odd sizes.
#include "weft/comm/c10d/gloo_group.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "weft/comm/c10d/c10d_test_impl.h"

namespace weft::comm {
namespace {

using test::run_ranks_as_threads;

void in_threads(int world, const std::function<void(Group&)>& body) {
  run_ranks_as_threads(world, in_gloo_group(body));
}

// 0, 1, fewer than ranks, prime, and beyond one round; chunks have a test of their own.
constexpr int64_t kCounts[] = {0, 1, 3, 1009, 40'009};
constexpr ReduceOp kAllOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin};

// Parts of very different sizes, some empty, `count` in all.
std::vector<int64_t> uneven(int64_t count, int world) {
  std::vector<int64_t> counts(static_cast<size_t>(world), 0);
  counts[static_cast<size_t>(world - 1)] = count / 3;
  counts[0] += count - count / 3;
  return counts;
}

class GlooGroupWorlds : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, GlooGroupWorlds, testing::Range(1, 6));

TEST_P(GlooGroupWorlds, ReductionsGiveTheBitsOfTheFabric) {
  const int world = GetParam();
  in_threads(world, [&](Group& group) {
    uint64_t seed = 0;
    for (const auto type : kAllTypes) {
      for (const int64_t count : kCounts) {
        const ReduceOp op = kAllOps[++seed % 4];
        const at::Tensor expected = reduced(world, count, type, op, seed);
        at::Tensor data = data_of(group.rank(), count, type, seed);
        group.all_reduce(data, op);
        ASSERT_TRUE(same_bits(data, expected)) << c10::toString(type) << " x " << count;

        const int root = static_cast<int>(seed) % world;
        data = data_of(group.rank(), count, type, seed);
        group.reduce(data, root, op);
        const at::Tensor unchanged = data_of(group.rank(), count, type, seed);
        ASSERT_TRUE(same_bits(data, group.rank() == root ? expected : unchanged))
            << c10::toString(type) << " x " << count;

        for (const auto& counts : {split_evenly(count, world), uneven(count, world)}) {
          const int64_t own = counts[static_cast<size_t>(group.rank())];
          const at::Tensor part = at::empty({own}, type);
          group.run(reduce_scatter(data_of(group.rank(), count, type, seed), part, op, counts));
          ASSERT_TRUE(same_bits(part, expected.narrow(0, sum_before(counts, group.rank()), own)));
        }
      }
    }
  });
}

TEST_P(GlooGroupWorlds, MovesPutEveryElementInItsPlace) {
  const int world = GetParam();
  in_threads(world, [&](Group& group) {
    uint64_t seed = 0;
    for (const auto type : kAllTypes) {
      for (const int64_t count : kCounts) {
        const int root = static_cast<int>(++seed) % world;
        at::Tensor data = data_of(group.rank(), count, type, seed);
        group.broadcast(data, root);
        ASSERT_TRUE(same_bits(data, data_of(root, count, type, seed)));

        for (const auto& counts : {split_evenly(count, world), uneven(count, world)}) {
          const at::Tensor whole = data_of(99, count, type, seed);
          const int64_t own = counts[static_cast<size_t>(group.rank())];
          const at::Tensor mine = whole.narrow(0, sum_before(counts, group.rank()), own);
          const bool is_root = group.rank() == root;
          at::Tensor gathered = at::zeros({count}, type);
          group.run(all_gather(mine.clone(), gathered, counts));
          ASSERT_TRUE(same_bits(gathered, whole));
          gathered = at::zeros({count}, type);
          group.run(gather(mine.clone(), is_root ? gathered : at::Tensor(), root, counts));
          ASSERT_TRUE(!is_root || same_bits(gathered, whole));
          const at::Tensor part = at::zeros({own}, type);
          group.run(scatter(is_root ? whole : at::Tensor(), part, root, counts));
          ASSERT_TRUE(same_bits(part, mine));
        }
      }
    }
  });
}

// Rank r sends r * 7 + p elements to rank p.
TEST_P(GlooGroupWorlds, AllToAllWithPartsOfAnySize) {
  const int world = GetParam();
  const auto part = [](int from, int to, at::ScalarType type) { return data_of(from * 10 + to, from * 7 + to, type); };
  in_threads(world, [&](Group& group) {
    for (const auto type : kAllTypes) {
      std::vector<at::Tensor> out, in;
      std::vector<int64_t> out_counts, in_counts;
      for (int peer = 0; peer < world; ++peer) {
        out.push_back(part(group.rank(), peer, type));
        in.push_back(part(peer, group.rank(), type));
        out_counts.push_back(out.back().numel());
        in_counts.push_back(in.back().numel());
      }
      const at::Tensor expected = at::cat(in), output = at::zeros_like(expected);
      group.run(all_to_all(at::cat(out), output, out_counts, in_counts));
      ASSERT_TRUE(same_bits(output, expected));
    }
    group.barrier();
  });
}

TEST(GlooGroup, LargeCallsTravelInChunks) {
  constexpr int64_t kCount = 5'000'011;
  for (const int world : {2, 3}) {
    const at::Tensor expected = reduced(world, kCount, at::kFloat, ReduceOp::kMean);
    in_threads(world, [&](Group& group) {
      at::Tensor data = data_of(group.rank(), kCount, at::kFloat);
      group.all_reduce(data, ReduceOp::kMean);
      EXPECT_TRUE(same_bits(data, expected));
      data = data_of(group.rank(), kCount, at::kFloat);
      group.reduce(data, 1, ReduceOp::kMean);
      EXPECT_TRUE(same_bits(data, group.rank() == 1 ? expected : data_of(group.rank(), kCount, at::kFloat)));
      const auto counts = uneven(kCount, world);
      const int64_t own = counts[static_cast<size_t>(group.rank())];
      const at::Tensor part = at::empty({own}, at::kFloat);
      group.run(reduce_scatter(data_of(group.rank(), kCount, at::kFloat), part, ReduceOp::kMean, counts));
      EXPECT_TRUE(same_bits(part, expected.narrow(0, sum_before(counts, group.rank()), own)));
    });
  }
}

TEST(GlooGroup, MessagesOfOneTagArriveInOrderAndTagsDoNotMix) {
  in_threads(3, [](Group& group) {
    const int next = (group.rank() + 1) % 3, previous = (group.rank() + 2) % 3;
    std::vector<Work> sent;
    for (int i = 0; i < 4; ++i) sent.push_back(group.start(send(at::full({100}, group.rank() * 10 + i), next, i % 2)));
    const at::Tensor got = at::zeros({100}, at::full({1}, 0).scalar_type());
    for (const int i : {0, 1, 2, 3}) {
      group.recv(got, previous, i % 2);
      EXPECT_EQ(got[99].item<int64_t>(), previous * 10 + i);
    }
    for (const Work& work : sent) work.wait();
    group.barrier();
  });
}

TEST(GlooGroup, AsynchronousCallsAndMessagesBesideThem) {
  in_threads(2, [](Group& group) {
    const at::Tensor a = at::full({300'000}, 1.0), b = at::full({7}, 2.0), message = at::full({9}, group.rank());
    const Work first = group.start(all_reduce(a)), second = group.start(all_reduce(b));
    if (group.rank() == 0) group.send(message, 1);
    if (group.rank() == 1) group.recv(message, 0);
    second.wait();
    first.wait();
    EXPECT_TRUE((a == 2).all().item<bool>());
    EXPECT_TRUE((b == 4).all().item<bool>());
    EXPECT_EQ(message[0].item<double>(), 0);
  });
}

TEST(GlooGroup, PartsOfAGroupAreGroups) {
  in_threads(4, [](Group& group) {
    const bool is_even = group.rank() % 2 == 0;
    const auto half = group.split(is_even ? std::vector<int>{2, 0} : std::vector<int>{1, 3}, "half");
    EXPECT_EQ(half->world(), 2);
    EXPECT_EQ(half->rank(), is_even ? 1 - group.rank() / 2 : group.rank() / 2);
    const at::Tensor data = at::full({5}, group.rank());
    half->all_reduce(data);
    EXPECT_EQ(data[4].item<int64_t>(), is_even ? 2 : 4);
    group.barrier();
  });
}

TEST(GlooGroup, CallsThatDifferAreToldToAll) {
  const auto body = [](Group& group) {
    const at::Tensor data = group.allocate(8, at::kFloat);
    try {
      if (group.rank() == 1) group.broadcast(data, 0);
      group.all_reduce(data);
      ADD_FAILURE() << "got through";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBug);
      EXPECT_NE(error.text().what.find("broadcast of 32 bytes"), std::string::npos) << error.what();
      EXPECT_NE(error.text().what.find("all_reduce of 32 bytes"), std::string::npos) << error.what();
    }
  };
  run_ranks_as_threads(3, in_gloo_group(body, 5));
}

WEFT_RANK_MAIN(reduces_over_tcp) {
  if (self.rank() == 0) {
    const Store store = Store::tcp({"127.0.0.1", 0}, true, Deadline::after(20.0));
    self.store().set("port", std::to_string(store.endpoint().port));
    const auto group = make_gloo_group({"world", 0, self.world(), 20}, store, Deadline::after(20.0));
    const at::Tensor data = at::full({100'000}, 1.0);
    group->all_reduce(data);
    EXPECT_EQ(data[99'999].item<double>(), 3.0);
    return 0;
  }
  const Store store = Store::tcp({"127.0.0.1", std::stoi(self.store().get("port"))}, false, Deadline::after(20.0));
  const auto group = make_gloo_group({"world", self.rank(), self.world(), 20}, store, Deadline::after(20.0));
  const at::Tensor data = at::full({100'000}, 1.0);
  group->all_reduce(data);
  EXPECT_EQ(data[99'999].item<double>(), 3.0);
  return 0;
}

TEST(GlooGroup, RanksAsProcessesLeaveWithoutALoss) {
  for (int repetition = 0; repetition < 3; ++repetition) {
    const auto results = test::run_ranks_as_processes("reduces_over_tcp", 3);
    expect_all_ok(results);
    for (const auto& result : results) EXPECT_EQ(result.err, "") << "of rank " << result.rank;
  }
}

}  // namespace
}  // namespace weft::comm
