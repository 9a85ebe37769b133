#include "weft/comm/fake_group.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <thread>

#include "weft/base/error.h"

namespace weft::comm {
namespace {

std::vector<int64_t> values(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.to(at::kLong).contiguous();
  return {whole.data_ptr<int64_t>(), whole.data_ptr<int64_t>() + whole.numel()};
}

using Values = std::vector<int64_t>;

TEST(FakeGroup, ReducesAsIfAllHeldTheSame) {
  FakeGroup group({.rank = 1, .world = 4});
  const std::pair<ReduceOp, Values> cases[] = {{ReduceOp::kSum, {0, 4, 8}},
                                               {ReduceOp::kMean, {0, 1, 2}},
                                               {ReduceOp::kMax, {0, 1, 2}},
                                               {ReduceOp::kMin, {0, 1, 2}}};
  for (const auto& [op, expected] : cases) {
    const at::Tensor data = at::arange(3, at::kFloat);
    group.all_reduce(data, op);
    EXPECT_EQ(values(data), expected);
  }
  const at::Tensor data = at::arange(3, at::kFloat);
  group.reduce(data, 0);
  EXPECT_EQ(values(data), (Values{0, 1, 2})) << "only the root's data changes";
  group.reduce(data, 1);
  EXPECT_EQ(values(data), (Values{0, 4, 8}));
}

TEST(FakeGroup, ScattersAndGathersWithUnevenParts) {
  FakeGroup group({.rank = 2, .world = 3});
  const at::Tensor part = at::full({2}, -1, at::kLong);
  group.reduce_scatter(at::arange(8, at::kLong), part);  // parts of 3, 3 and 2
  EXPECT_EQ(values(part), (Values{18, 21}));
  const at::Tensor whole = at::full({8}, -1, at::kLong);
  group.all_gather(part, whole);
  EXPECT_EQ(values(whole), (Values{18, 21, 18, 18, 21, 18, 18, 21}));
}

TEST(FakeGroup, TheRestIsCopiesOrZeros) {
  FakeGroup group({.rank = 1, .world = 2});
  const at::Tensor out = at::full({4}, -1, at::kLong);
  group.all_to_all(at::arange(4, at::kLong), out);
  EXPECT_EQ(values(out), (Values{2, 3, 2, 3}));
  group.gather(at::arange(2, at::kLong), out, 1);
  EXPECT_EQ(values(out), (Values{0, 1, 0, 1}));
  group.gather(at::arange(2, at::kLong), {}, 0);
  const at::Tensor part = at::full({2}, -1, at::kLong);
  group.scatter(at::arange(4, at::kLong), part, 1);
  EXPECT_EQ(values(part), (Values{2, 3}));
  group.scatter({}, part, 0);
  EXPECT_EQ(values(part), (Values{0, 0})) << "what another rank holds is not known";
  group.broadcast(out, 0);
  EXPECT_EQ(values(out), (Values{0, 1, 0, 1}));
  group.recv(out, 0);
  EXPECT_EQ(values(out), (Values{0, 0, 0, 0}));
  EXPECT_FALSE(group.shares_memory());
  EXPECT_THROW(group.allocate_common(4, at::kLong), Error);
  const at::Tensor mine = group.allocate(4, at::kLong);
  mine.fill_(5);
  group.read(0, mine, out);
  EXPECT_EQ(values(out), (Values{5, 5, 5, 5}));
}

TEST(FakeGroup, AsynchronousCallsAreDoneAtOnce) {
  FakeGroup group({.rank = 0, .world = 128});
  const at::Tensor data = at::full({2}, 1, at::kFloat);
  const Work work = group.start(all_reduce(data));
  EXPECT_TRUE(work.done());
  work.wait();
  EXPECT_EQ(values(data), (Values{128, 128}));
}

TEST(FakeGroup, CountsCallsBytesAndTheWire) {
  FakeGroup group({.rank = 0, .world = 4});
  const at::Tensor data = at::full({1000}, 1, at::kFloat), part = at::full({250}, 1, at::kFloat);
  group.all_reduce(data);
  group.all_reduce(data);
  group.reduce_scatter(data, part);
  group.barrier();
  EXPECT_EQ(group.traffic().of(Operation::kAllReduce), (FakeCount{2, 8000, 2 * 2 * 3000}));
  EXPECT_EQ(group.traffic().of(Operation::kReduceScatter), (FakeCount{1, 4000, 3000}));
  EXPECT_EQ(group.traffic().of(Operation::kBarrier), (FakeCount{1, 0, 0}));
  EXPECT_EQ(group.traffic().of(Operation::kSend), FakeCount{});
  EXPECT_EQ(group.traffic().total(), (FakeCount{4, 12000, 15000}));
}

// What all ranks send together is what the algorithm moves, however the parts fall.
TEST(FakeGroup, TheRingAddsUpOverTheRanks) {
  constexpr int kWorld = 3;
  constexpr int64_t kCount = 1001, kBytes = 4 * kCount;
  const at::Tensor data = at::full({kCount}, 1, at::kFloat), other = at::full({kCount}, 1, at::kFloat);
  const std::pair<Collective, int64_t> cases[] = {{all_reduce(data), 2 * (kWorld - 1) * kBytes},
                                                  {broadcast(data, 1), (kWorld - 1) * kBytes},
                                                  {reduce(data, 2), (kWorld - 1) * kBytes},
                                                  {barrier(), 0}};
  for (const auto& [call, expected] : cases) {
    int64_t sum = 0;
    for (int rank = 0; rank < kWorld; ++rank) sum += ring_bytes_sent(call, rank, kWorld);
    EXPECT_EQ(sum, expected) << describe(call);
  }
  int64_t gathered = 0, scattered = 0;
  for (int rank = 0; rank < kWorld; ++rank) {
    const int64_t own = split_evenly(kCount, kWorld)[static_cast<size_t>(rank)];
    Collective gather_call = all_gather(other.narrow(0, 0, own), data),
               scatter_call = reduce_scatter(data, other.narrow(0, 0, own));
    complete(gather_call, rank, kWorld);
    complete(scatter_call, rank, kWorld);
    gathered += ring_bytes_sent(gather_call, rank, kWorld);
    scattered += ring_bytes_sent(scatter_call, rank, kWorld);
  }
  EXPECT_EQ(gathered, (kWorld - 1) * kBytes);
  EXPECT_EQ(scattered, (kWorld - 1) * kBytes);
  EXPECT_EQ(ring_bytes_sent(all_reduce(data), 0, 1), 0) << "a rank alone sends nothing";
}

TEST(FakeGroup, PartsShareTheTraffic) {
  FakeGroup group({.rank = 5, .world = 8});
  const auto part = group.split({1, 5, 7}, "some");
  EXPECT_EQ(part->rank(), 1);
  EXPECT_EQ(part->world(), 3);
  EXPECT_EQ(part->name(), "some");
  EXPECT_THROW(group.split({0, 1}, "not mine"), Error);
  const at::Tensor data = at::full({2}, 1, at::kFloat);
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) part->barrier();
  });
  for (int i = 0; i < 100; ++i) group.barrier();
  other.join();
  EXPECT_EQ(group.traffic().of(Operation::kBarrier).calls, 200);
  part->all_reduce(data);
  EXPECT_EQ(values(data), (Values{3, 3}));
}

}  // namespace
}  // namespace weft::comm
