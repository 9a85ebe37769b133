// What stage 3 keeps in memory, and what it says where that is not to be had.
#include "weft/engine/residents.h"

#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/GradMode.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <numeric>
#include <set>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/comm/fake_group.h"
#include "weft/comm/runner.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/zero3_nets_test_impl.h"
#include "weft/engine/zero3_test_impl.h"

namespace weft {
namespace {

std::string what_is_thrown(const std::function<void()>& what) {
  try {
    what();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing";
}

void expect_in(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
}

// --- By the allocator's own count ------------------------------------------------------------------------------------

// What this thread has allocated in blocks of some sizes, and not given back.
class BlockCount final : public c10::MemoryReportingInfoBase {
 public:
  void of(std::set<int64_t> sizes) { sizes_ = std::move(sizes); }
  void reportMemoryUsage(void* /*at*/, int64_t bytes, size_t, size_t, c10::Device) override {
    if (!sizes_.contains(std::abs(bytes))) return;
    now_ += bytes;
    peak_ = std::max(peak_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t now() const { return now_; }
  // Since it was asked last.
  int64_t peak() { return std::exchange(peak_, now_); }

 private:
  std::set<int64_t> sizes_;
  int64_t now_ = 0, peak_ = 0;
};

constexpr int64_t kUnitWidth = 32, kNumUnits = 6;
// A layer is a unit, of a size that nothing else has: 1056 elements, padded.
constexpr int64_t kUnitElements = 1088, kUnitBytes = kUnitElements * 4;

Net layers_with_biases() {
  Net net;
  for (int64_t i = 0; i < kNumUnits; ++i) {
    net.parameters.push_back(parameter({kUnitWidth, kUnitWidth}, 2 * i));
    net.parameters.push_back(parameter({kUnitWidth}, 2 * i + 1));
  }
  net.loss = [](const Net& one, int64_t sample) {
    at::Tensor x = input(one, sample, {4, kUnitWidth});
    for (size_t i = 0; i < one.parameters.size(); i += 2)
      x = (at::mm(x, one.parameters[i]) * 0.1 + one.parameters[i + 1]).tanh();
    return x.pow(2).mean();
  };
  return net;
}

std::string room_for(int64_t num_units, int64_t ahead = 0) {
  return cat(R"(, "zero_optimization": {"stage": 3, "reduce_bucket_size": 1056, "stage3_param_persistence_threshold": 0,
                  "stage3_max_live_parameters": )",
             num_units * kUnitElements, R"(, "stage3_prefetch_bucket_size": )", ahead * kUnitElements,
             R"(}, "weft": {"common_parameters": false})");
}

struct Room {
  int64_t num_units, ahead;
  bool over_network;
};
std::string name_of_room(const testing::TestParamInfo<Room>& one) {
  return cat(one.param.over_network ? "network_" : "fabric_", one.param.num_units, "_ahead_", one.param.ahead);
}
class ResidentsLimit : public testing::TestWithParam<Room> {};
INSTANTIATE_TEST_SUITE_P(Of, ResidentsLimit,
                         testing::Values(Room{1, 0, false}, Room{2, 1, false}, Room{3, 0, false}, Room{1, 0, true},
                                         Room{2, 1, true}),
                         name_of_room);

TEST_P(ResidentsLimit, IsKeptWhateverHappens) {
  const auto [num_units, ahead, over_network] = GetParam();
  const int64_t limit = num_units * kUnitBytes, with_one = limit + kUnitBytes;
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&, num_units = num_units, ahead = ahead, over = over_network](test::RankContext& ctx) {
    const auto count = std::make_shared<BlockCount>();
    const c10::DebugInfoGuard counted(c10::DebugInfoKind::PROFILER_STATE, count);
    count->of({kUnitBytes});
    World here = world(run, ctx.rank(), 2);
    if (over) here.group = std::make_shared<AsOverANetwork>(here.group);
    const Net net = layers_with_biases();
    Engine engine(net.tensors(), settings(2, 1, room_for(num_units, ahead)), here);
    ASSERT_EQ(engine.plan().layout.buckets.size(), static_cast<size_t>(kNumUnits));
    for (const auto& bucket : engine.plan().layout.buckets) ASSERT_EQ(bucket.num_elements, kUnitElements);
    EXPECT_LE(count->peak(), kUnitBytes) << "while slices are cut";
    for (int64_t step = 0; step < 6; ++step) {
      const int64_t allowed = step == 3 ? kNumUnits * kUnitBytes : with_one;  // all of it was asked for
      const at::Tensor loss = net.loss(net, step * 2 + ctx.rank());
      EXPECT_LE(count->peak(), allowed) << "forward of step " << step;
      EXPECT_GT(count->now(), 0);
      engine.backward(loss);
      EXPECT_LE(count->peak(), allowed) << "backward of step " << step;
      engine.step();
      EXPECT_LE(count->now(), limit) << "after step " << step;
      if (step == 2) {
        engine.wait_for_parameters();
        EXPECT_EQ(count->now(), kNumUnits * kUnitBytes);
        count->peak();
      } else if (step == 3) {
        const at::NoGradGuard no_grad;
        count->peak();
        for (const at::Tensor& one : net.parameters) one.mul_(0.5);
        for (const at::Tensor& one : net.parameters) one.add_(one.sum(), 0.001);
        EXPECT_LE(count->peak(), with_one) << "writing";
      }
    }
  });
}

TEST(ResidentsWrites, AreSeenByAllHoweverOftenUnitsLeave) {
  const auto train = [](const std::string& zero) {
    return train_net(layers_with_biases,
                     {.size = 3, .more = zero, .num_steps = 5, .before_step = [](const Net& net, int64_t step) {
                        if (step % 2 == 0) return;
                        const at::NoGradGuard no_grad;
                        for (const at::Tensor& one : net.parameters) one.mul_(0.5);
                        for (const at::Tensor& one : net.parameters) one.add_(one.sum(), 0.01);
                        net.parameters[4].copy_(net.parameters[2]);
                        net.parameters[2].add_(net.parameters[4].t());
                      }});
  };
  const NetRun expected = train(cat(kStage2, R"(, "weft": {"common_parameters": false})"));
  for (const int64_t num_units : {0, 1, 2, 100}) expect_same(train(room_for(num_units)), expected, cat(num_units));
}

// --- No memory -------------------------------------------------------------------------------------------------------

// A host whose allocator has no block of one size.
class Refusing final : public c10::Allocator {
 public:
  explicit Refusing(size_t bytes) : bytes_(bytes) { c10::SetCPUAllocator(this, kPriority); }
  ~Refusing() override { c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), kPriority); }
  Refusing(const Refusing&) = delete;
  Refusing& operator=(const Refusing&) = delete;

  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == bytes_ && num_left_-- <= 0) throw std::runtime_error("the host has no block of that size\nin malloc");
    return c10::GetDefaultCPUAllocator()->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return c10::GetDefaultCPUAllocator()->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t count) const override { default_copy_data(to, from, count); }
  void allow(int count) { num_left_ = count; }

 private:
  static constexpr uint8_t kPriority = 100;
  const size_t bytes_;
  int num_left_ = 1'000'000;
};

World alone_of_two() {
  const auto group = std::make_shared<comm::FakeGroup>(comm::FakeGroupSpec{.rank = 0, .world = 2});
  return {.group = group, .rank = 0, .size = 2, .local_rank = 0, .local_size = 2, .run_id = fresh_run()};
}

TEST(ResidentsWithoutMemory, SayWhatTheyHoldAndWhatToLower) {
  const Net net = layers_with_biases();
  Refusing host(kUnitBytes);
  Engine engine(net.tensors(), settings(2, 1, room_for(5)), alone_of_two());
  host.allow(4);
  const at::Tensor loss = net.loss(net, 0);
  EXPECT_TRUE(loss.isfinite().item<bool>()) << "operators behind the failure read zeros";
  const std::string text = what_is_thrown([&] { engine.backward(loss); });
  const std::string size = format_bytes(kUnitBytes);
  expect_in(text, {"no memory to gather 'p9', 'p8'", cat(size, " for 1088 elements; "),
                   cat("4 units are gathered, ", format_bytes(4 * kUnitBytes), ": 'p7', 'p6' (", size, "), "),
                   cat("'p3', 'p2' (", size, ") and 1 more; the host has no block of that size\n"), "rank 0",
                   "lower \"stage3_max_live_parameters\" (5440 ", "\"stage3_prefetch_bucket_size\" (0 ",
                   "\"reduce_bucket_size\" (1056 "});
  EXPECT_EQ(text.find("in malloc"), std::string::npos) << text;
}

int64_t mapped_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  statm >> pages;
  return pages * 4096;
}

// In a process of its own, which a limit of the system holds.
WEFT_RANK_MAIN(runs_out_of_memory) {
  Net net{{parameter({2048, 4096}, 1), parameter({8, 8}, 2)}, {}};
  Engine engine(net.tensors(), settings(2, 1, kTight), alone_of_two());
  const auto limit = static_cast<rlim_t>(mapped_bytes() + (int64_t{8} << 20));
  const rlimit limits{.rlim_cur = limit, .rlim_max = RLIM_INFINITY};
  EXPECT_EQ(::setrlimit(RLIMIT_AS, &limits), 0);
  const at::NoGradGuard no_grad;
  // There are not even zeros: torch says it, out of the operator itself, and so does the engine.
  const auto use = [&] { net.parameters[0].sum(); };
  for (int twice = 0; twice < 2; ++twice)
    expect_in(what_is_thrown(use), {"no memory to gather 'p0'", format_bytes(32 << 20), "nothing else is gathered",
                                    "stage3_max_live_parameters", "reduce_bucket_size"});
  expect_in(what_is_thrown([&] { engine.wait_for_parameters(); }), {"no memory to gather 'p0'"});
  return 0;
}

TEST(ResidentsWithoutMemory, LetTorchThrowTheCauseWhereThereAreNoZeros) {
  if (test::kSlowdown > 1) GTEST_SKIP() << "sanitizers map what they like";
  expect_all_ok(test::run_ranks_as_processes("runs_out_of_memory", 1));
}

// --- Ranks that part, where gathers run on devices -------------------------------------------------------------------

// Gloo has no way to tell units of one size apart.
TEST(ResidentsOfDevices, FindRanksThatPartBeforeTheUpdate) {
  const comm::Store store = comm::Store::in_process();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const auto lane = gloo_group(store, ctx.rank(), 2);
    const auto on_host = lane->split_on_host({0, 1}, "order");
    std::vector<at::Tensor> tensors = {parameter({8, 8}, 1), parameter({8, 8}, 2), parameter({8, 8}, 3)};
    const plan::ParameterTable table(
        {{.name = "a", .shape = {8, 8}}, {.name = "b", .shape = {8, 8}}, {.name = "c", .shape = {8, 8}}});
    const plan::Plan plan =
        make_plan(table, {.layout = {.world = 2, .bucket_elements = 64, .first_bucket_bytes = 0}, .stage = 3});
    const auto zeros = [](int64_t count, at::ScalarType type) { return at::zeros({count}, type); };
    memory::FlatBuckets buckets(plan, tensors, {.allocate_gradients = zeros, .with_frozen = true});
    engine::Residents residents({lane.get()}, on_host.get(), plan, buckets, {.max_live = 64});
    const at::NoGradGuard no_grad;
    const auto step = [&](size_t second) {
      for (const size_t unit : {size_t{0}, second}) EXPECT_TRUE(tensors[unit].sum().isfinite().item<bool>());
      residents.before_update();
      residents.after_update();
    };
    step(2);
    const std::string text = what_is_thrown([&] { step(ctx.rank() == 1 ? 1 : 2); });
    expect_in(text, {"ranks touch different parameters",
                     ctx.rank() == 0 ? "rank 0 gathers 'c', rank 1 'b'" : "rank 1 gathers 'b', rank 0 'c'"});
  });
}

// --- Where the gate sees nothing -------------------------------------------------------------------------------------

TEST(ResidentsUnseen, SayWhatToDoInACallbackOfACollective) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const Net net = layers();
    Engine engine(net.tensors(), settings(2, 1, kTight), world(run, ctx.rank(), 2));
    comm::Runner collectives(30);
    const comm::Work work = collectives.submit([&] { net.parameters[2].sum(); }, [] {});
    expect_in(what_is_thrown([&] { work.wait(); }),
              {"'p2' this rank has a slice", "in a callback of a collective", "weft::GatheredParameters"});
    engine.backward(net.loss(net, ctx.rank()));  // and nothing else is hurt
    engine.step();
  });
}

TEST(ResidentsUnseen, NoGateStandsWhereNothingIsSharded) {
  const auto train_and_look = [](const World& here) {
    const Net net = layers();
    Engine engine(net.tensors(), settings(here.size, 1, R"(, "zero_optimization": {"stage": 3})"), here);
    for (int64_t i = 0; i < 2; ++i) {
      engine.backward(net.loss(net, i));
      engine.step();
      EXPECT_FALSE(at::hasGlobalCallbacks()) << here.size << " ranks";
    }
  };
  const std::string run = fresh_run();
  test::run_ranks_as_threads(1, [&](test::RankContext&) { train_and_look(world(cat(run, "-alone"), 0, 1)); });
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) { train_and_look(world(run, ctx.rank(), 2)); });
}

// --- Another way -----------------------------------------------------------------------------------------------------

TEST(ResidentsTrace, AnotherOrderIsSaidOnceByEachEngineWithItsOperator) {
  testing::internal::CaptureStderr();
  for (int engines = 0; engines < 2; ++engines) train_net(conditional, {.size = 2, .more = kTight, .num_steps = 8});
  const std::string text = testing::internal::GetCapturedStderr();
  const std::string line = "parameters are touched in another order than in the step before, from aten::mm on 'p";
  int count = 0;
  for (size_t at = text.find(line); at != std::string::npos; at = text.find(line, at + 1)) ++count;
  EXPECT_EQ(count, 4) << "two engines of two ranks: " << text;
}

}  // namespace
}  // namespace weft
