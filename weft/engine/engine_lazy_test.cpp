// Parameters that come behind forward: who reads one waits for its bucket, and for no other.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/ranks.h"
#include "weft/comm/wrapped_group.h"
#include "weft/engine/engine_test_impl.h"

namespace weft {
namespace {

// Keeps gathers into one storage from beginning until it is let go.
class Hold {
 public:
  void keep(const at::Tensor& tensor) {
    const std::scoped_lock lock(mutex_);
    storage_ = tensor.storage().unsafeGetStorageImpl();
  }
  bool keeps(const comm::Collective& call) {
    const std::scoped_lock lock(mutex_);
    return storage_ != nullptr && call.operation == comm::Operation::kAllGather &&
           call.output.storage().unsafeGetStorageImpl() == storage_;
  }
  void let_go() {
    const std::scoped_lock lock(mutex_);
    storage_ = nullptr;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return storage_ == nullptr; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const void* storage_ = nullptr;
};

// Begins when it is waited for and nobody keeps it.
class HeldWork final : public comm::WorkState {
 public:
  HeldWork(Hold& hold, std::function<void()> run) : hold_(hold), run_(std::move(run)) {}
  bool done() override { return finished_ns_ > 0; }
  int64_t finished_ns() override { return finished_ns_; }
  void wait(Deadline /*deadline*/) override {
    hold_.wait();
    if (!done()) run_();
    finished_ns_ = now_ns();
  }

 private:
  Hold& hold_;
  const std::function<void()> run_;
  int64_t finished_ns_ = 0;
};

class HoldingGroup final : public comm::WrappedGroup {
 public:
  HoldingGroup(std::shared_ptr<comm::Group> inner, std::shared_ptr<Hold> hold)
      : WrappedGroup(std::move(inner)), hold_(std::move(hold)) {}

 private:
  std::shared_ptr<comm::Group> wrap(std::shared_ptr<comm::Group> part, const std::vector<int>&) override {
    return std::make_shared<HoldingGroup>(std::move(part), hold_);
  }
  comm::Work launch(const comm::Collective& call, comm::Launch how) override {
    if (!hold_->keeps(call)) return pass_on(call, how);
    return comm::Work(std::make_shared<HeldWork>(*hold_, [this, call] { pass_on(call, comm::Launch::kBlocking); }));
  }

  const std::shared_ptr<Hold> hold_;
};

const char* const kBehindForward = R"(, "zero_optimization": {"stage": 2, "reduce_bucket_size": 500},
                                       "weft": {"common_parameters": false})";

// `second` is in the bucket whose gradients come first, which is brought last.
TEST(EngineLazily, AParameterWaitsForItsBucketAndForNoOther) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const auto hold = std::make_shared<Hold>();
    World here = world(run, ctx.rank(), 2);
    here.group = std::make_shared<HoldingGroup>(here.group, hold);
    Model model;
    Engine engine(model.tensors(), settings(2, 1, kBehindForward), here);
    for (int64_t i = 0; i < 2; ++i) step_on(engine, model, i);
    const at::Tensor first = engine.full_param(model.first), second = engine.full_param(model.second);

    if (ctx.rank() == 0) hold->keep(model.second);
    step_on(engine, model, 2);
    EXPECT_FALSE(model.first.detach().clone().equal(first)) << "waits for nobody, and is new";
    auto reading = std::async(std::launch::async, [&] { return model.second.detach().clone(); });
    if (ctx.rank() == 0) {
      EXPECT_EQ(reading.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout) << "it was not there yet";
    }
    hold->let_go();
    const at::Tensor read = reading.get();
    EXPECT_FALSE(read.equal(second));
    EXPECT_TRUE(read.equal(engine.full_param(model.second)));
  });
}

// As on a device: a wait orders the stream of whoever waits and returns; the bytes land later.
class OrderedWork final : public comm::WorkState {
 public:
  struct Log {
    std::atomic<bool> has_landed = false;
    std::atomic<int> num_waits = 0;
  };
  explicit OrderedWork(Log& log) : log_(log) {}
  bool done() override { return log_.has_landed; }
  int64_t finished_ns() override { return log_.has_landed ? 1 : 0; }
  void wait(Deadline /*deadline*/) override { ++log_.num_waits; }

 private:
  Log& log_;
};

class OrderedGroup final : public comm::WrappedGroup {
 public:
  OrderedGroup(std::shared_ptr<comm::Group> inner, OrderedWork::Log& log) : WrappedGroup(std::move(inner)), log_(log) {}

 private:
  std::shared_ptr<comm::Group> wrap(std::shared_ptr<comm::Group> part, const std::vector<int>&) override {
    return std::make_shared<OrderedGroup>(std::move(part), log_);
  }
  comm::Work launch(const comm::Collective& call, comm::Launch how) override {
    if (how == comm::Launch::kBlocking || call.operation != comm::Operation::kAllGather) return pass_on(call, how);
    pass_on(call, comm::Launch::kBlocking);
    return comm::Work(std::make_shared<OrderedWork>(log_));
  }

  OrderedWork::Log& log_;
};

// Each read may be on a stream of its own.
TEST(EngineLazily, EveryReadIsOrderedUntilTheParameterHasLanded) {
  test::run_ranks_as_threads(2, [&, run = fresh_run()](test::RankContext& ctx) {
    OrderedWork::Log log;
    World here = world(run, ctx.rank(), 2);
    here.group = std::make_shared<OrderedGroup>(here.group, log);
    Model model;
    Engine engine(model.tensors(), settings(2, 1, kBehindForward), here);
    for (int64_t i = 0; i < 2; ++i) step_on(engine, model, i);
    const auto waits_of_a_read = [&] {
      const int before = log.num_waits;
      at::add(model.first.detach(), 1);
      return log.num_waits - before;
    };
    EXPECT_GT(waits_of_a_read(), 0);
    EXPECT_GT(waits_of_a_read(), 0) << "another stream would read half of it";
    log.has_landed = true;
    waits_of_a_read();
    EXPECT_EQ(waits_of_a_read(), 0);
  });
}

// What is there after three steps, whoever brings it.
at::Tensor second_after_three_steps(const World& here) {
  Model model;
  Engine engine(model.tensors(), settings(2, 1, R"(, "zero_optimization": {"stage": 2, "reduce_bucket_size": 500},
                                                    "weft": {"common_parameters": false, "lazy_gather": false})"),
                here);
  for (int64_t i = 0; i < 3; ++i) step_on(engine, model, i);
  return engine.full_param(model.second);
}

// Values as memory has them: torch::save() reads it like this, and no operator says so.
std::vector<float> memory_of(const at::Tensor& tensor) {
  const auto* const values = tensor.const_data_ptr<float>();
  return {values, values + tensor.numel()};
}

// engine = initialize(model, ...): the new one is there before the old one goes.
TEST(EngineLazily, AnotherEngineTakesOverWhatIsOnItsWay) {
  test::run_ranks_as_threads(2, [&, run = fresh_run()](test::RankContext& ctx) {
    const World here = world(run, ctx.rank(), 2);
    std::vector<at::Tensor> got;
    for (const bool waits : {true, false}) {
      Model model;
      auto engine = std::make_unique<Engine>(model.tensors(), settings(2, 1, kBehindForward), here);
      for (int64_t i = 0; i < 3; ++i) step_on(*engine, model, i);
      if (waits) engine->wait_for_parameters();
      engine = std::make_unique<Engine>(model.tensors(), settings(2, 1, kBehindForward), here);
      for (int64_t i = 3; i < 6; ++i) step_on(*engine, model, i);
      for (const at::Tensor& parameter : {model.first, model.second}) got.push_back(engine->full_param(parameter));
    }
    EXPECT_TRUE(got[0].equal(got[2]) && got[1].equal(got[3]));
  });
}

TEST(EngineLazily, WhoReadsMemoryWaitsForParametersFirst) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const auto hold = std::make_shared<Hold>();
    World here = world(run, ctx.rank(), 2);
    const at::Tensor expected = second_after_three_steps(here);
    here.group = std::make_shared<HoldingGroup>(here.group, hold);
    Model model;
    Engine engine(model.tensors(), settings(2, 1, kBehindForward), here);
    for (int64_t i = 0; i < 2; ++i) step_on(engine, model, i);
    engine.wait_for_parameters();
    const std::vector<float> before = memory_of(model.second);
    hold->keep(model.second);
    step_on(engine, model, 2);
    EXPECT_NE(memory_of(model.second), memory_of(expected)) << "the other rank's half has not come yet";
    hold->let_go();
    engine.wait_for_parameters();
    EXPECT_EQ(memory_of(model.second), memory_of(expected));
    EXPECT_NE(memory_of(model.second), before);
  });
}

TEST(EngineLazily, AnEngineThatGoesLeavesWholeParameters) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const auto hold = std::make_shared<Hold>();
    World here = world(run, ctx.rank(), 2);
    const at::Tensor expected = second_after_three_steps(here);
    here.group = std::make_shared<HoldingGroup>(here.group, hold);
    Model model;
    std::optional<Engine> engine(std::in_place, model.tensors(), settings(2, 1, kBehindForward), here);
    for (int64_t i = 0; i < 2; ++i) step_on(*engine, model, i);
    hold->keep(model.second);
    step_on(*engine, model, 2);
    hold->let_go();  // begins when it is waited for
    engine.reset();
    EXPECT_EQ(memory_of(model.second), memory_of(expected));
  });
}

}  // namespace
}  // namespace weft
