// The engine on device tensors: results, what is skipped, and that nobody waits for the device. Without one every case is skipped.
#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <c10/core/AutogradState.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "weft/base/clock.h"
#include "weft/base/text.h"
#include "weft/engine/device_spans.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/ready_times.h"

namespace weft {
namespace {

constexpr double kDeviceDeadlineS = 60;
constexpr int kDeviceSteps = 5;

c10::impl::VirtualGuardImpl cuda() { return c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA); }

class EngineOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA() || cuda().deviceCount() == 0) GTEST_SKIP() << "there is no CUDA device";
  }
};

struct DeviceModel {
  at::Tensor first, second;

  explicit DeviceModel(at::Device device)
      : first(numbers({24, 40}, 1).to(device).set_requires_grad(true)),
        second(numbers({40, 8}, 3).to(device).set_requires_grad(true)) {}

  ModelTensors tensors() const { return {{{"first", first}, {"second", second}}, {}}; }
  at::Tensor loss(int64_t sample) const {
    const at::Tensor in = numbers({5, 24}, 100 + sample).to(first.options());
    return at::mm(at::mm(in, first).tanh(), second).pow(2).mean();
  }
};

// Ranks that are threads of one process share the one thread that autograd has for a device: a hook of one rank that waits for the other
// would keep the other's backward from coming. A rank that is a process, as they are outside of tests, shares it with nobody.
class BackwardOnThisThread {
 public:
  BackwardOnThisThread() { set(false); }
  ~BackwardOnThisThread() { set(before_); }
  BackwardOnThisThread(const BackwardOnThisThread&) = delete;
  BackwardOnThisThread& operator=(const BackwardOnThisThread&) = delete;

 private:
  static void set(bool enabled) { c10::AutogradState::get_tls_state().set_multithreading_enabled(enabled); }

  const bool before_ = c10::AutogradState::get_tls_state().get_multithreading_enabled();
};

std::vector<at::Tensor> train_on_device(at::Device device, const World& world, const config::Resolved& config) {
  const BackwardOnThisThread apart;
  DeviceModel model(device);
  Engine engine(model.tensors(), config, world);
  for (int64_t i = 0; i < kDeviceSteps * config.gradient_accumulation_steps; ++i) {
    engine.backward(model.loss(i * world.size + world.rank));
    engine.step();
  }
  return {model.first.detach().cpu(), model.second.detach().cpu()};
}

std::vector<at::Tensor> train_two(at::Device device, const std::string& more, int64_t accumulation = 1) {
  std::vector<at::Tensor> result;
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const auto got = train_on_device(device, world_of(run, ctx.rank(), 2, kDeviceDeadlineS * test::kSlowdown),
                                     settings(2, accumulation, more));
    if (ctx.rank() == 0) result = got;
  });
  return result;
}

void expect_close(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(at::allclose(a[i], b[i], 1e-4, 1e-6))
        << "parameter " << i << ": " << (a[i] - b[i]).abs().max().item<float>();
}

std::string stage(int number, const std::string& more = "") {
  return cat(R"(, "zero_optimization": {"stage": )", number,
             R"(, "stage3_param_persistence_threshold": 0, "reduce_bucket_size": 500})", more);
}

const char* const kClipped = R"(, "gradient_clipping": 1e-3)";
const char* const kBf16 = R"(, "bf16": {"enabled": true})";

TEST_F(EngineOnCuda, FollowsTheCpu) {
  for (const int number : {0, 1, 2, 3}) {
    for (const char* more : {"", kClipped, R"(, "weft": {"lazy_gather": false})"}) {
      SCOPED_TRACE(cat("stage ", number, more));
      expect_close(train_two(at::kCUDA, stage(number, more)), train_two(at::kCPU, stage(number, more)));
    }
  }
}

// With clipping as well: sums of squares are taken in double, and the factor is rounded to fp32.
TEST_F(EngineOnCuda, StagesHaveTheSameBits) {
  for (const char* more : {"", kClipped, kBf16}) {
    const auto expected = train_two(at::kCUDA, stage(0, more));
    for (const int number : {1, 2, 3}) {
      SCOPED_TRACE(cat("stage ", number, more));
      expect_equal(train_two(at::kCUDA, stage(number, more)), expected, cat("stage ", number, more));
    }
  }
  // Stages 0 and 1 add up before they reduce, the others after.
  expect_equal(train_two(at::kCUDA, stage(1), 2), train_two(at::kCUDA, stage(0), 2), "stages 0 and 1");
  expect_equal(train_two(at::kCUDA, stage(3), 2), train_two(at::kCUDA, stage(2), 2), "stages 2 and 3");
}

TEST_F(EngineOnCuda, OverlapAndBucketsChangeNoBit) {
  const auto expected = train_two(at::kCUDA, "");
  for (const char* more : {R"(, "zero_optimization": {"overlap_comm": true, "reduce_bucket_size": 64})",
                           R"(, "zero_optimization": {"overlap_comm": true, "contiguous_gradients": false})",
                           R"(, "zero_optimization": {"overlap_comm": true}, "weft": {"bucket": "auto"})"}) {
    SCOPED_TRACE(more);
    expect_equal(train_two(at::kCUDA, more), expected, more);
  }
}

TEST_F(EngineOnCuda, AGradientThatIsNotFiniteIsLeftOut) {
  DeviceModel model(at::kCUDA);
  Engine engine(model.tensors(), settings(1, 1), world_of(fresh_run(), 0, 1, kDeviceDeadlineS));
  engine.backward(model.loss(0));
  engine.step();
  const at::Tensor before = model.first.detach().clone();
  engine.backward(model.loss(1) * std::numeric_limits<float>::quiet_NaN());
  engine.step();
  EXPECT_TRUE(model.first.detach().equal(before));
  EXPECT_EQ(engine.skipped_steps(), 1);
  engine.backward(model.loss(2));
  engine.step();
  EXPECT_FALSE(model.first.detach().equal(before));
}

const char* const kWarmup = R"(, "scheduler": {"type": "WarmupLR", "params":
                                  {"warmup_num_steps": 8, "warmup_max_lr": 0.02, "warmup_type": "linear"}})";

// In fp32 and bf16 the device alone knows that a step was left out: the schedule does not move all the same.
TEST_F(EngineOnCuda, AStepLeftOutMovesNeitherScheduleNorBiasCorrection) {
  for (const char* more : {"", kBf16, R"(, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2})"}) {
    const auto config = settings(1, 1, cat(kWarmup, more));
    std::vector<std::vector<at::Tensor>> weights;
    std::vector<std::vector<double>> rates;
    for (const bool is_bad : {false, true}) {
      auto model = std::make_unique<DeviceModel>(at::kCUDA);
      auto engine = std::make_unique<Engine>(model->tensors(), config, world_of(fresh_run(), 0, 1, kDeviceDeadlineS));
      rates.emplace_back();
      for (int64_t i = 0; i < kDeviceSteps; ++i) {
        if (is_bad && i == 2) {
          engine->backward(model->loss(9) * std::numeric_limits<float>::infinity());
          engine->step();
          EXPECT_EQ(engine->skipped_steps(), 1);
          auto other = std::make_unique<DeviceModel>(at::kCUDA);
          auto next = std::make_unique<Engine>(other->tensors(), config, world_of(fresh_run(), 0, 1, kDeviceDeadlineS));
          next->set_optimizer_state(engine->optimizer_state());
          next->set_full_param(other->first, engine->full_param(model->first));
          next->set_full_param(other->second, engine->full_param(model->second));
          engine = std::move(next);
          model = std::move(other);
        }
        engine->backward(model->loss(i));
        engine->step();
        rates.back().push_back(engine->get_lr());
      }
      weights.push_back({engine->full_param(model->first), engine->full_param(model->second)});
    }
    EXPECT_EQ(rates[0], rates[1]) << more;
    EXPECT_GT(rates[0].back(), 0) << "the schedule moves";
    expect_equal(weights[0], weights[1], more);
  }
}

TEST_F(EngineOnCuda, NobodyWaitsForTheDevice) {
  for (const char* more : {"", kWarmup}) {
    DeviceModel model(at::kCUDA);
    Engine engine(model.tensors(), settings(1, 1, more), world_of(fresh_run(), 0, 1, kDeviceDeadlineS));
    const auto step = [&](const at::Tensor& in) {
      engine.backward(at::mm(at::mm(in, model.first).tanh(), model.second).pow(2).mean());
      engine.step();
    };
    const at::Tensor in = numbers({5, 24}, 1).cuda();
    for (int i = 0; i < 3; ++i) step(in);
    at::Tensor busy = at::full({8192, 8192}, 1e-4, in.options());
    for (int i = 0; i < 100; ++i) busy = at::mm(busy, busy);  // seconds of work, asked for in microseconds
    step(in);
    c10::Event done(c10::DeviceType::CUDA);
    done.record(cuda().getStream(in.device()));
    EXPECT_FALSE(done.query()) << "the step came back only when the device had finished" << more;
    done.synchronize();
  }
}

// A hook between nine tenths of the device's work and the last tenth, and one after all of it.
TEST_F(EngineOnCuda, ReadyTimesAreTheDevices) {
  at::Tensor busy = at::full({4096, 4096}, 1e-4, at::TensorOptions().device(at::kCUDA));
  const auto work = [&](int num_products) {
    for (int i = 0; i < num_products; ++i) busy = at::mm(busy, busy);
  };
  engine::ReadyTimes times(busy.device(), 3);
  work(10);  // libraries are loaded, and the device is behind when the backward begins
  times.begin(true);
  work(90);
  times.note(0);
  work(10);
  times.note(1);
  const Stopwatch asked;
  times.end();
  EXPECT_GT(asked.elapsed_s(), times.last_s()[1] / 2) << "the work was asked for in no time, and end() waited for it";
  EXPECT_NEAR(times.last_s()[0] / times.last_s()[1], 0.9, 0.09);
  EXPECT_GE(times.backward_s(), times.last_s()[1]);
  EXPECT_EQ(times.last_s()[2], 0) << "it never came";
}

// Nine tenths of the work in one span, a tenth in the other, both asked for in no time.
TEST_F(EngineOnCuda, SpansAreTimedOnTheDevice) {
  at::Tensor busy = at::full({4096, 4096}, 1e-4, at::TensorOptions().device(at::kCUDA));
  const auto work = [&](int num_products) {
    for (int i = 0; i < num_products; ++i) busy = at::mm(busy, busy);
  };
  work(10);
  engine::DeviceSpans spans(busy.device());
  set_spans_on(true);
  SpanBatch batch;
  drain_spans(batch);
  const int64_t began_ns = now_ns();
  {
    const Span forward({.name = "forward", .category = SpanCategory::kForward});
    work(90);
  }
  {
    const Span backward({.name = "backward", .category = SpanCategory::kBackward});
    work(10);
  }
  const double asked_s = static_cast<double>(now_ns() - began_ns) * 1e-9;
  spans.resolve();
  drain_spans(batch);
  EXPECT_TRUE(batch.events.empty()) << "the device has hardly begun";
  cuda().getStream(busy.device()).synchronize();
  const int64_t ended_ns = now_ns();
  spans.resolve();
  set_spans_on(false);
  drain_spans(batch);
  ASSERT_EQ(batch.events.size(), 2U);
  const auto [forward, backward] = std::pair(batch.events[0], batch.events[1]);
  EXPECT_NEAR(static_cast<double>(duration_ns(forward)) / static_cast<double>(duration_ns(backward)), 9, 3)
      << "other programs may use the device too";
  EXPECT_GE(backward.start_ns, forward.end_ns - 1000);
  EXPECT_GE(forward.start_ns, began_ns - 200'000);
  EXPECT_LE(backward.end_ns, ended_ns + 200'000) << "the clocks are compared to a fraction of a millisecond";
  EXPECT_GT(static_cast<double>(backward.end_ns - began_ns) * 1e-9, 2 * asked_s);
}

// Waiting for a collective only orders streams: the host learns later when it was done, and its span ends then.
TEST_F(EngineOnCuda, ACollectivesSpanEndsWhenItLanded) {
  engine::DeviceSpans spans(c10::Device(at::kCUDA, 0));
  set_spans_on(true);
  SpanBatch batch;
  drain_spans(batch);
  OpenSpan lost = begin_span({.name = "reduce", .category = SpanCategory::kReduce});
  OpenSpan reduce = begin_span({.name = "gather", .category = SpanCategory::kGather});
  int64_t landed_ns = 0;
  lost.end_when([] { return -1; });
  reduce.end_when([&] { return landed_ns; });
  set_spans_on(false);
  cuda().getStream(c10::Device(at::kCUDA, 0)).synchronize();
  spans.resolve();
  drain_spans(batch);
  EXPECT_TRUE(batch.events.empty()) << "one is under way, the other never comes";
  landed_ns = now_ns() + 1'000'000;
  spans.resolve();
  drain_spans(batch);
  ASSERT_EQ(batch.events.size(), 1U);
  EXPECT_EQ(batch.events[0].end_ns, landed_ns);
}

// A step's span, its phases inside it, all on the device's clock.
TEST_F(EngineOnCuda, AStepHasItsPhasesInside) {
  DeviceModel model(at::kCUDA);
  Engine engine(model.tensors(), settings(1, 1), world_of(fresh_run(), 0, 1, kDeviceDeadlineS));
  engine::DeviceSpans spans(model.first.device());
  set_spans_on(true);
  engine.begin_step_times();
  for (int i = 0; i < 3; ++i) {
    const at::Tensor loss = model.loss(i);
    engine.backward(loss);
    engine.step();
    loss.item<float>();
    spans.resolve();
  }
  set_spans_on(false);
  SpanBatch batch;
  drain_spans(batch);
  std::vector<SpanEvent> steps, inside;
  for (const SpanEvent& event : batch.events) {
    if (event.category == SpanCategory::kStep) steps.push_back(event);
    if (event.category == SpanCategory::kBackward || event.category == SpanCategory::kOptimizer)
      inside.push_back(event);
  }
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[2].value, 3);
  EXPECT_GE(inside.size(), 6U);
  for (const SpanEvent& event : inside) {
    EXPECT_GE(event.start_ns, steps.front().start_ns);
    EXPECT_LE(event.end_ns, steps.back().end_ns) << event.name;
  }
}

}  // namespace
}  // namespace weft
