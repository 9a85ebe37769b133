#include "weft/comm/fabric/fabric.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/comm/fabric/test_data_impl.h"

namespace weft::fabric {
namespace {

using test::RankContext;
using test::run_ranks_as_threads;

Deadline soon() { return Deadline::after(30.0 * test::kSlowdown); }

constexpr size_t kSizes[] = {0, 1, 7, 1009, 100'003};

std::vector<Bytes> inputs_of(int world, ElementType type, size_t count) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < world; ++rank) inputs.push_back(elements_of(type, count, static_cast<uint64_t>(rank)));
  return inputs;
}

Bytes part(const Bytes& whole, size_t offset, size_t bytes) {
  const auto from = whole.begin() + static_cast<ptrdiff_t>(offset);
  return Bytes(from, from + static_cast<ptrdiff_t>(bytes));
}

Bytes share_of(const Region& region, size_t bytes) { return Bytes(region.mine(), region.mine() + bytes); }

// One rank of a group in a test: the fabric, a region large enough for every case, and the place in it that is used.
struct Bench {
  Fabric& fabric;
  Region& region;
  size_t offset = 128;

  size_t world() const { return static_cast<size_t>(fabric.world()); }
  size_t self() const { return static_cast<size_t>(fabric.rank()); }
  RegionPlace place() const { return region.at(offset); }
  void fill(const Bytes& bytes) const { std::copy(bytes.begin(), bytes.end(), place().mine()); }
  Bytes share(size_t bytes) const { return Bytes(place().mine(), place().mine() + bytes); }
  // Unequal on purpose, some empty; the sum is `count`.
  std::vector<size_t> cut(size_t count) const {
    std::vector<size_t> parts(world(), 0);
    size_t left = count;
    for (size_t r = 0; r + 1 < world(); ++r) left -= parts[r] = r % 3 == 1 ? 0 : left / 2;
    parts.back() = left;
    return parts;
  }
};

size_t before(const std::vector<size_t>& parts, size_t rank) {
  return std::accumulate(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(rank), size_t{0});
}

void check_reductions(const Bench& bench, ElementType type, ReduceOp op, size_t count) {
  const auto inputs = inputs_of(bench.fabric.world(), type, count);
  const Bytes& own = inputs[bench.self()];
  const Bytes expected = reduced_by_hand(inputs, type, op);
  const size_t size = element_bytes(type);
  const int root = static_cast<int>(count % bench.world());
  const bool is_root = bench.fabric.rank() == root;

  Bytes data = own;
  bench.fabric.all_reduce(data.data(), count, {type, op}, soon());
  EXPECT_EQ(data, expected);
  bench.fill(own);
  bench.fabric.all_reduce(bench.place(), count, {type, op}, soon());
  EXPECT_EQ(bench.share(own.size()), expected);

  data = own;
  bench.fabric.reduce(data.data(), count, {type, op}, root, soon());
  EXPECT_EQ(data, is_root ? expected : own);
  bench.fill(own);
  bench.fabric.reduce(bench.place(), count, {type, op}, root, soon());
  EXPECT_EQ(bench.share(own.size()), is_root ? expected : own);

  const auto counts = bench.cut(count);
  const size_t first = before(counts, bench.self()) * size;
  const Bytes own_part = part(expected, first, counts[bench.self()] * size);
  Bytes into(own_part.size());
  bench.fabric.reduce_scatter(own.data(), counts, into.data(), {type, op}, soon());
  EXPECT_EQ(into, own_part);
  bench.fill(own);
  bench.fabric.reduce_scatter(bench.place(), counts, bench.place().mine() + first, {type, op}, soon());
  EXPECT_EQ(part(bench.share(own.size()), first, own_part.size()), own_part);
}

void check_gathers(const Bench& bench, size_t bytes) {
  const auto parts = bench.cut(bytes);
  const Bytes whole = elements_of(ElementType::kUInt8, bytes, 5);
  const Bytes own = part(whole, before(parts, bench.self()), parts[bench.self()]);

  Bytes into(bytes);
  bench.fabric.all_gather(own.data(), parts, into.data(), soon());
  EXPECT_EQ(into, whole);
  bench.fill(own);
  into.assign(bytes, std::byte{0});
  bench.fabric.all_gather(bench.place(), parts, into.data(), soon());
  EXPECT_EQ(into, whole);
  std::fill_n(bench.place().mine(), bytes, std::byte{0});
  std::copy(own.begin(), own.end(), bench.place().mine() + before(parts, bench.self()));
  bench.fabric.all_gather_in_place(bench.place(), parts, soon());
  EXPECT_EQ(bench.share(bytes), whole);
}

void check_broadcast(const Bench& bench, size_t bytes) {
  for (int root = 0; root < bench.fabric.world(); root += 2) {
    const Bytes whole = elements_of(ElementType::kUInt8, bytes, static_cast<uint64_t>(root));
    Bytes data = bench.fabric.rank() == root ? whole : Bytes(bytes);
    bench.fabric.broadcast(data.data(), bytes, root, soon());
    EXPECT_EQ(data, whole);
    bench.fill(bench.fabric.rank() == root ? whole : Bytes(bytes));
    bench.fabric.broadcast(bench.place(), bytes, root, soon());
    EXPECT_EQ(bench.share(bytes), whole);
  }
}

// all_to_all, and its two halves. Rank a sends a's share of `bytes`, cut as b's would be: sizes that differ by pair.
void check_exchanges(const Bench& bench, size_t bytes) {
  const size_t world = bench.world(), self = bench.self();
  const auto size_of = [&](size_t from, size_t to) { return (from + to) % 3 == 0 ? 0 : bytes / (1 + from + 2 * to); };
  std::vector<std::vector<size_t>> sizes(world, std::vector<size_t>(world));
  for (size_t from = 0; from < world; ++from)
    for (size_t to = 0; to < world; ++to) sizes[from][to] = size_of(from, to);
  const auto inputs = inputs_of(bench.fabric.world(), ElementType::kUInt8, bytes * world);
  std::vector<size_t> from_each(world);
  Bytes crossed;
  for (size_t from = 0; from < world; ++from) {
    from_each[from] = sizes[from][self];
    const Bytes mine = part(inputs[from], before(sizes[from], self), from_each[from]);
    crossed.insert(crossed.end(), mine.begin(), mine.end());
  }
  Bytes all(crossed.size());
  bench.fabric.all_to_all(inputs[self].data(), sizes[self], all.data(), from_each, soon());
  EXPECT_EQ(all, crossed);

  const int root = bench.fabric.world() - 1;
  const bool is_root = bench.fabric.rank() == root;
  const auto parts = bench.cut(bytes);
  const Bytes own = part(inputs.back(), before(parts, self), parts[self]);
  Bytes gathered(is_root ? bytes : 0), dealt(parts[self]);
  bench.fabric.gather(own.data(), parts, gathered.data(), root, soon());
  EXPECT_EQ(gathered, is_root ? part(inputs.back(), 0, bytes) : Bytes());
  bench.fabric.scatter(is_root ? inputs.back().data() : nullptr, parts, dealt.data(), root, soon());
  EXPECT_EQ(dealt, own);
}

// A ring of messages, small and larger than a channel, the tags received in another order than sent.
void check_messages(const Bench& bench, size_t bytes) {
  if (bench.world() == 1) return;
  const int world = bench.fabric.world(), next = (bench.fabric.rank() + 1) % world;
  const int last = (bench.fabric.rank() + world - 1) % world;
  const Bytes own = elements_of(ElementType::kUInt8, bytes, bench.self());
  const Bytes theirs = elements_of(ElementType::kUInt8, bytes, static_cast<uint64_t>(last));
  Bytes first(bytes), second(1), third(bytes);
  // Rank 0 hears before it speaks: a circle of ranks that all send a long message would wait for each other.
  const auto hear = [&] {
    bench.fabric.receive(second.data(), 1, last, 2, soon());
    bench.fabric.receive(first.data(), bytes, last, 1, soon());
    bench.fabric.receive(third.data(), bytes, last, 1, soon());
  };
  const auto speak = [&] {
    bench.fabric.send(own.data(), bytes, next, 1, soon());
    const std::byte note{static_cast<uint8_t>(bench.self())};
    bench.fabric.send(&note, 1, next, 2, soon());
    bench.fabric.send(own.data(), bytes, next, 1, soon());
  };
  if (bench.self() == 0) hear();
  speak();
  if (bench.self() != 0) hear();
  EXPECT_EQ(first, theirs);
  EXPECT_EQ(third, theirs);
  EXPECT_EQ(second.front(), std::byte{static_cast<uint8_t>(last)});
}

void check_everything(const Membership& self, std::span<const ElementType> types) {
  Fabric fabric(self, soon());
  Region region = fabric.allocate(100'003 * size_t{16} + 256, soon());
  const Bench bench{fabric, region};
  for (const size_t size : kSizes) {
    // Every rank works out all the expected results, so the work grows with the square of the world.
    const size_t count = fabric.world() <= 4 ? size : std::min<size_t>(size, 10'007);
    for (const ElementType type : types) check_reductions(bench, type, ReduceOp::kSum, count);
    for (const ReduceOp op : kAllOps) check_reductions(bench, types.front(), op, count);
    check_gathers(bench, count);
    check_broadcast(bench, count);
    check_exchanges(bench, count);
    check_messages(bench, count);
  }
  fabric.barrier(soon());
}

class FabricThreads : public testing::TestWithParam<int> {};

TEST_P(FabricThreads, EveryCollectiveEqualsItsReference) {
  const std::string run = fresh_run_id();
  const int world = GetParam();
  const size_t num_fds = num_open_fds();
  // The kernels have tests of their own; here two types that differ in size are enough for the large worlds.
  const std::span<const ElementType> types = std::span(kAllTypes).last(world <= 3 ? 9 : 2);
  run_ranks_as_threads(world, [&](RankContext& ctx) { check_everything({run, ctx.rank(), world}, types); });
  EXPECT_EQ(num_open_fds(), num_fds);
  EXPECT_EQ(num_mapped_segments(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Worlds, FabricThreads, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 16));

WEFT_RANK_MAIN(checks_every_collective) {
  const ElementType types[] = {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kInt64};
  const size_t num_fds = num_open_fds();
  check_everything({self.dir().string(), self.rank(), self.world()}, types);
  EXPECT_EQ(num_open_fds(), num_fds);
  EXPECT_EQ(num_mapped_segments(), 0U);
  return 0;
}

class FabricProcesses : public testing::TestWithParam<int> {};

TEST_P(FabricProcesses, EveryCollectiveEqualsItsReference) {
  expect_all_ok(test::run_ranks_as_processes("checks_every_collective", GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, FabricProcesses, testing::Values(1, 2, 3, 4));

TEST(Fabric, LargeBuffersGoThroughTheStageInRounds) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(3, [&](RankContext& ctx) {
    Fabric fabric({run, ctx.rank(), 3}, soon());
    constexpr size_t kCount = 1'000'003;  // nearly four slots of fp32
    Region region = fabric.allocate(kCount * sizeof(float), soon());
    check_reductions(Bench{fabric, region, 0}, ElementType::kFloat32, ReduceOp::kMean, kCount);
    check_gathers(Bench{fabric, region, 0}, 3'000'017);
    check_exchanges(Bench{fabric, region, 0}, 1'200'007);
  });
}

TEST(Fabric, ReadsAPeersShare) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(4, [&](RankContext& ctx) {
    Fabric fabric({run, ctx.rank(), 4}, soon());
    const Region region = fabric.allocate(5000, soon());
    EXPECT_EQ(share_of(region, 5000), Bytes(5000)) << "fresh memory is zero";
    const auto all = inputs_of(4, ElementType::kUInt8, 5000);
    std::copy(all[ctx.rank()].begin(), all[ctx.rank()].end(), region.mine());
    fabric.barrier(soon());
    for (int peer = 0; peer < 4; ++peer) {
      Bytes into(4000);
      fabric.read(peer, region.at(1000), 4000, into.data());
      EXPECT_EQ(into, part(all[peer], 1000, 4000));
    }
    EXPECT_THROW(fabric.read(0, region.at(1001), 4000, nullptr), Error);
    fabric.barrier(soon());
  });
}

TEST(Fabric, AMessageOfAnotherSizeIsRefused) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(2, [&](RankContext& ctx) {
    Fabric fabric({run, ctx.rank(), 2}, soon());
    Bytes data(16);
    if (ctx.rank() == 0) fabric.send(data.data(), 16, 1, 0, soon());
    if (ctx.rank() == 1) {
      EXPECT_THROW(fabric.receive(data.data(), 8, 0, 0, soon()), Error);
    }
    fabric.barrier(soon());
  });
}

TEST(Fabric, AShareAndForeignMemoryInOneCallAreToldApart) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(2, [&](RankContext& ctx) {
    Fabric fabric({run, ctx.rank(), 2}, soon());
    const Region region = fabric.allocate(1 << 20, soon());
    Bytes foreign(1 << 20);
    const auto call = [&] {
      if (ctx.rank() == 0) return fabric.broadcast(region.at(0), 1 << 20, 0, soon());
      fabric.broadcast(foreign.data(), 1 << 20, 0, soon());
    };
    EXPECT_THROW(call(), Error);
  });
}

TEST(Fabric, ThousandsOfSmallCallsKeepTheirOrder) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(3, [&](RankContext& ctx) {
    Fabric fabric({run, ctx.rank(), 3}, soon());
    for (int64_t i = 0; i < 2000; ++i) {
      int64_t value = i * (ctx.rank() + 1);
      fabric.all_reduce(&value, 1, {ElementType::kInt64, ReduceOp::kSum}, soon());
      ASSERT_EQ(value, 6 * i);
      int64_t root_says = ctx.rank() == i % 3 ? i : -1;
      fabric.broadcast(&root_says, sizeof root_says, static_cast<int>(i % 3), soon());
      ASSERT_EQ(root_says, i);
    }
  });
}

TEST(Fabric, RefusedMemoryIsToldToAllAndTheFabricGoesOn) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(3, [&](RankContext& ctx) {
    Fabric fabric({run, ctx.rank(), 3}, soon());
    for (const size_t bytes : {size_t{1} << 60, SIZE_MAX}) {
      try {
        const Region region = fabric.allocate(bytes, soon());
        ADD_FAILURE() << "got " << bytes;
      } catch (const IoError& error) {
        EXPECT_EQ(error.text().where, "rank 0") << error.what();
      }
    }
    const Region region = fabric.allocate(0, soon());
    fabric.barrier(soon());
  });
}

}  // namespace
}  // namespace weft::fabric
