// Every operation on every transport against a plain reference: types, sizes that do not divide, worlds, ranks as threads and
// as processes. Reductions on shm and gloo equal rank-order summation to the bit; over several hosts they equal it up to the
// rounding of the hosts' partial sums, and are the same in all ranks.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/comm/groups.h"
#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/comm/c10d/gloo_group.h"
#include "weft/comm/hierarchical_group.h"
#include "weft/comm/shm_group.h"

namespace weft::comm {
namespace {

using test::RankContext;

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt,
                                     at::kLong,  at::kShort,  at::kChar, at::kByte};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin};

// How the ranks of one test find each other.
struct Meeting {
  std::string transport;  // "shm", "gloo", "hosts": two ranks to a host, the last host maybe with one
  std::string run;
  Store store = Store::in_process();
};

std::shared_ptr<Group> join_shm(const std::string& run, const std::string& name, int rank, int world) {
  return make_shm_group(
      {.run_id = run, .name = name, .rank = rank, .world = world, .deadline_s = kLimitS, .join_deadline_s = kLimitS});
}

std::shared_ptr<Group> join_world(const Meeting& meeting, int rank, int world) {
  if (meeting.transport == "shm") return join_shm(meeting.run, "world", rank, world);
  const GroupIdentity self{.name = "world", .rank = rank, .world = world, .deadline_s = kLimitS};
  auto flat = make_gloo_group(self, meeting.store, Deadline::after(kLimitS));
  if (meeting.transport == "gloo" || world < 3) return flat;
  std::vector<int> host_of;
  for (int r = 0; r < world; ++r) host_of.push_back(r / 2);
  const int host = rank / 2, num_here = std::min(2, world - 2 * host);
  auto local = join_shm(cat(meeting.run, "/", host), cat("host-", host), rank % 2, num_here);
  GroupIdentity watcher = self;
  watcher.name = "watch";
  auto watch = std::make_shared<RollCall>(watcher, meeting.store, Deadline::after(kLimitS));
  return make_hierarchical_group(std::move(flat), std::move(local), host_of, std::move(watch));
}

// Small whole numbers and a few awkward ones; the same in every process.
at::Tensor data_of(int rank, int64_t count, at::ScalarType type) {
  const at::Tensor steps = at::arange(count, at::kLong);
  const at::Tensor whole = (steps * 7919 + rank * 104729) % 61 - (type == at::kByte ? 0 : 30);
  if (!at::isFloatingType(type)) return whole.to(type);
  return (whole.to(at::kDouble) / 7.0).to(type);
}

std::vector<at::Tensor> all_data(int world, int64_t count, at::ScalarType type) {
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < world; ++rank) all.push_back(data_of(rank, count, type));
  return all;
}

// In rank order, with the fabric's kernel, which has tests of its own.
at::Tensor reduced(const std::vector<at::Tensor>& all, ReduceOp op) {
  std::vector<const std::byte*> sources;
  for (const at::Tensor& one : all) sources.push_back(static_cast<const std::byte*>(one.const_data_ptr()));
  at::Tensor into = at::empty_like(all.front());
  fabric::reduce(into.mutable_data_ptr(), sources, static_cast<size_t>(into.numel()), element_type(into.scalar_type()),
                 op);
  return into;
}

// Unequal on purpose, some empty; adds up to `count`.
std::vector<int64_t> uneven(int64_t count, int world) {
  std::vector<int64_t> parts(static_cast<size_t>(world), 0);
  int64_t left = count;
  for (int r = 0; r + 1 < world; ++r) left -= parts[static_cast<size_t>(r)] = r % 3 == 1 ? 0 : left / 2;
  parts.back() = left;
  return parts;
}

at::Tensor part(const at::Tensor& whole, const std::vector<int64_t>& counts, int rank) {
  const auto first = std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
  return whole.slice(0, first, first + counts[static_cast<size_t>(rank)]);
}

class Checker {
 public:
  Checker(Group& group, bool exact) : group_(group), exact_(exact), rank_(group.rank()), world_(group.world()) {}

  void check_reductions(int64_t count, at::ScalarType type, ReduceOp op) {
    const auto all = all_data(world_, count, type);
    const at::Tensor& own = all[static_cast<size_t>(rank_)];
    const at::Tensor expected = reduced(all, op);
    at::Tensor data = own.clone();
    group_.all_reduce(data, op);
    expect_near(data, expected, "all_reduce");
    expect_same_everywhere(data);

    const int root = static_cast<int>(count % world_);
    data = own.clone();
    group_.reduce(data, root, op);
    expect_near(data, rank_ == root ? expected : own, "reduce");

    for (const auto& counts : {split_evenly(count, world_), uneven(count, world_)}) {
      at::Tensor into = at::empty({counts[static_cast<size_t>(rank_)]}, own.options());
      group_.run(reduce_scatter(own, into, op, counts));
      expect_near(into, part(expected, counts, rank_), "reduce_scatter");
    }
    check_in_own_memory(own, expected, op);
  }

  // Also while another call is under way.
  void check_allocation(int64_t count) {
    const at::Tensor data = at::zeros({count}, at::kFloat) + rank_;
    const Work work = group_.start(all_reduce(data));
    const at::Tensor memory = group_.allocate(count + 1, at::kFloat);
    EXPECT_EQ(memory.numel(), count + 1);
    work.wait();
    EXPECT_TRUE(data.equal(at::zeros({count}, at::kFloat) + world_ * (world_ - 1) / 2)) << group_.transport();
  }

  // The same where the input lies in memory of the transport's; it stays as it is.
  void check_in_own_memory(const at::Tensor& own, const at::Tensor& expected, ReduceOp op) {
    const at::Tensor data = group_.allocate(own.numel(), own.scalar_type());
    data.copy_(own);
    const auto counts = split_evenly(own.numel(), world_);
    at::Tensor into = at::empty({counts[static_cast<size_t>(rank_)]}, own.options());
    group_.run(reduce_scatter(data, into, op, counts));
    expect_near(into, part(expected, counts, rank_), "reduce_scatter of the transport's memory");
    expect_equal(data, own, "the input of reduce_scatter");
    const int root = world_ - 1;
    group_.reduce(data, root, op);
    expect_near(data, rank_ == root ? expected : own, "reduce in the transport's memory");
    data.copy_(own);
    group_.all_reduce(data, op);
    expect_near(data, expected, "all_reduce in the transport's memory");
  }

  void check_moves(int64_t count, at::ScalarType type) {
    const auto all = all_data(world_, count, type);
    const at::Tensor& own = all[static_cast<size_t>(rank_)];
    const at::Tensor& whole = all.back();
    for (const int root : {0, world_ - 1}) {
      at::Tensor data = own.clone();
      group_.broadcast(data, root);
      expect_equal(data, all[static_cast<size_t>(root)], "broadcast");
    }
    for (const auto& counts : {split_evenly(count, world_), uneven(count, world_)}) {
      const at::Tensor mine = part(whole, counts, rank_).clone();
      at::Tensor into = at::zeros_like(whole);
      group_.run(all_gather(mine, into, counts));
      expect_equal(into, whole, "all_gather");
      const int root = world_ / 2;
      into = rank_ == root ? at::zeros_like(whole) : at::Tensor();
      group_.run(gather(mine, into, root, counts));
      if (rank_ == root) expect_equal(into, whole, "gather");
      at::Tensor dealt = at::zeros_like(mine);
      group_.run(scatter(rank_ == root ? whole : at::Tensor(), dealt, root, counts));
      expect_equal(dealt, mine, "scatter");
    }
  }

  // One memory to a host, where ranks have that: whatever a rank wrote to its part all see.
  void check_common(int64_t count, at::ScalarType type) {
    if (world_ == 1) return;
    const int64_t whole_count = count * world_;
    const at::Tensor expected = data_of(3, whole_count, type);
    if (group_.num_sharing() == 1) {
      EXPECT_THROW(group_.allocate_common(whole_count, type), Error);
      return;
    }
    const at::Tensor whole = group_.allocate_common(whole_count, type);
    for (int round = 0; round < 3; ++round) {
      const at::Tensor now = round == 1 ? expected.flip(0) : expected;
      const at::Tensor mine = whole.narrow(0, count * rank_, count);
      mine.copy_(now.narrow(0, count * rank_, count));
      if (round == 2) {
        group_.start(gather_common(whole, rank_, world_)).wait();
      } else {
        group_.run(gather_common(whole, rank_, world_));
      }
      expect_equal(whole, now, "gather_common");
      group_.barrier();
    }
  }

  // Rank a sends to rank b a piece whose size depends on both.
  void check_all_to_all(int64_t count, at::ScalarType type) {
    const auto size = [&](int from, int to) { return (from + to) % 3 == 0 ? 0 : count / (1 + from + 2 * to); };
    std::vector<int64_t> out, in;
    for (int r = 0; r < world_; ++r) {
      out.push_back(size(rank_, r));
      in.push_back(size(r, rank_));
    }
    const at::Tensor from = data_of(rank_, std::accumulate(out.begin(), out.end(), int64_t{0}), type);
    at::Tensor into = at::zeros({std::accumulate(in.begin(), in.end(), int64_t{0})}, type);
    group_.run(all_to_all(from, into, out, in));
    for (int r = 0; r < world_; ++r) {
      std::vector<int64_t> theirs;
      for (int to = 0; to < world_; ++to) theirs.push_back(size(r, to));
      const at::Tensor sent = data_of(r, std::accumulate(theirs.begin(), theirs.end(), int64_t{0}), type);
      expect_equal(part(into, in, r), part(sent, theirs, rank_), "all_to_all");
    }
  }

  void check_messages(int64_t count, at::ScalarType type) {
    if (world_ == 1) return;
    const int next = (rank_ + 1) % world_, last = (rank_ + world_ - 1) % world_;
    const at::Tensor own = data_of(rank_, count, type);
    at::Tensor into = at::zeros_like(own);
    const Work sent = group_.start(send(own, next, 3)), received = group_.start(recv(into, last, 3));
    received.wait();
    sent.wait();
    expect_equal(into, data_of(last, count, type), "send and recv");
  }

 private:
  void expect_equal(const at::Tensor& got, const at::Tensor& expected, const char* what) {
    EXPECT_TRUE(got.equal(expected)) << what << " on " << group_.transport() << ", world " << world_ << ", rank "
                                     << rank_ << ", " << expected.numel() << " of "
                                     << c10::toString(expected.scalar_type());
  }
  void expect_near(const at::Tensor& got, const at::Tensor& expected, const char* what) {
    if (exact_ || !expected.is_floating_point()) return expect_equal(got, expected, what);
    // One rounding per host on the way; sums here stay below 5 * world.
    const double unit = expected.scalar_type() == at::kBFloat16 ? 1.0 / 128
                        : expected.scalar_type() == at::kHalf   ? 1.0 / 1024
                        : expected.scalar_type() == at::kFloat  ? 1.2e-7
                                                                : 2.3e-16;
    const at::Tensor error = (got.to(at::kDouble) - expected.to(at::kDouble)).abs();
    const double bound = unit * 5 * world_ * world_;
    EXPECT_TRUE(error.numel() == 0 || error.max().item<double>() <= bound) << what << " of " << world_;
  }
  void expect_same_everywhere(const at::Tensor& data) {
    const at::Tensor first = data.clone();
    group_.broadcast(first, 0);
    expect_equal(data, first, "all_reduce, the same in all ranks");
  }

  Group& group_;
  const bool exact_;
  const int rank_, world_;
};

void check_everything(Group& group, bool exact, std::span<const at::ScalarType> types, int64_t largest) {
  Checker checker(group, exact);
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{1009}, largest}) {
    // Whole types cannot divide a negative sum alike in two steps and in one, so means are for fractions there.
    for (const at::ScalarType type : types) checker.check_reductions(count, type, ReduceOp::kSum);
    for (const ReduceOp op : kOps) checker.check_reductions(count, types.front(), op);
    for (const at::ScalarType type : types) checker.check_moves(count, type);
    checker.check_allocation(count);
    checker.check_common(count, types.front());
    checker.check_common(count, types.back());
    checker.check_all_to_all(count, types.back());
    checker.check_messages(count, types.back());
  }
  group.barrier();
}

using Case = std::tuple<std::string, int>;

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  return cat(std::get<0>(info.param), "_", std::get<1>(info.param));
}

class ConformanceThreads : public testing::TestWithParam<Case> {};

TEST_P(ConformanceThreads, EveryOperationEqualsItsReference) {
  const auto& [transport, world] = GetParam();
  const Meeting meeting{transport, fresh_run_id()};
  const std::span<const at::ScalarType> types = std::span(kTypes).first(world <= 3 ? std::size(kTypes) : 4);
  const int64_t largest = world <= 4 ? 300'007 : 20'011;
  test::run_ranks_as_threads(world, [&](RankContext& ctx) {
    const auto group = join_world(meeting, ctx.rank(), world);
    check_everything(*group, transport != "hosts", types, largest);
  });
}

INSTANTIATE_TEST_SUITE_P(Shm, ConformanceThreads,
                         testing::Combine(testing::Values("shm"), testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 16)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Gloo, ConformanceThreads,
                         testing::Combine(testing::Values("gloo"), testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 16)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Hosts, ConformanceThreads,
                         testing::Combine(testing::Values("hosts"), testing::Values(3, 4, 5, 7, 8)), name_of_case);

// Rank 0 serves the store on a port that the kernel chose, and tells the others which.
Store store_of(test::RankSelf& self) {
  const Deadline deadline = Deadline::after(kLimitS);
  if (self.rank() == 0) {
    Store store = Store::tcp({"127.0.0.1", 0}, true, deadline);
    self.store().set("port", cat(store.endpoint().port));
    return store;
  }
  return Store::tcp({"127.0.0.1", std::stoi(self.store().get("port"))}, false, deadline);
}

int check_as_process(test::RankSelf& self, const std::string& transport) {
  at::set_num_threads(1);  // ranks share the cores
  const Meeting meeting{transport, self.dir().string(), transport == "shm" ? Store::in_process() : store_of(self)};
  const auto group = join_world(meeting, self.rank(), self.world());
  check_everything(*group, transport != "hosts", std::span(kTypes).first(4), 100'003);
  return 0;
}

WEFT_RANK_MAIN(conforms_on_shm) { return check_as_process(self, "shm"); }
WEFT_RANK_MAIN(conforms_on_gloo) { return check_as_process(self, "gloo"); }
WEFT_RANK_MAIN(conforms_on_hosts) { return check_as_process(self, "hosts"); }

class ConformanceProcesses : public testing::TestWithParam<Case> {};

TEST_P(ConformanceProcesses, EveryOperationEqualsItsReference) {
  const auto& [transport, world] = GetParam();
  expect_all_ok(test::run_ranks_as_processes(cat("conforms_on_", transport), world));
}

INSTANTIATE_TEST_SUITE_P(Worlds, ConformanceProcesses,
                         testing::Combine(testing::Values("shm", "gloo"), testing::Values(1, 2, 3, 4)), name_of_case);
INSTANTIATE_TEST_SUITE_P(Hosts, ConformanceProcesses, testing::Combine(testing::Values("hosts"), testing::Values(3, 4)),
                         name_of_case);

}  // namespace
}  // namespace weft::comm
