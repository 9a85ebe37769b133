// Accumulation that the user does himself: any number of backward() to a step(), with and without no_sync(), in every stage.
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "tests/support/ranks.h"
#include "tests/support/text.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"

namespace weft {
namespace {

using test::count_of;

constexpr int kStepsByHand = 4;
constexpr int kPartsByHand = 3;

constexpr const char *kByHand = R"(, "managed_gradient_accumulation": false)",
                     *kOnce = R"(, "weft": {"reduce_each": "step", "shard_update": false})",
                     *kOnceStage1 = R"(, "zero_optimization": {"stage": 1}, "weft": {"reduce_each": "step"})";

// Stage 1 with overlap is what DeepSpeed refuses.
constexpr const char* kStagesByHand[] = {
    R"(, "weft": {"shard_update": false})",
    R"(, "zero_optimization": {"stage": 0, "overlap_comm": true, "reduce_bucket_size": 300})",
    R"(, "zero_optimization": {"stage": 1})",
    R"(, "zero_optimization": {"stage": 1, "contiguous_gradients": false}, "weft": {"common_parameters": false})",
    R"(, "zero_optimization": {"stage": 2})",
    R"(, "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 300})",
    R"(, "zero_optimization": {"stage": 2, "reduce_bucket_size": 1}, "weft": {"common_parameters": false})",
    R"(, "zero_optimization": {"stage": 3, "overlap_comm": true})",
    R"(, "zero_optimization": {"stage": 3, "reduce_bucket_size": 100, "stage3_param_persistence_threshold": 0},
        "weft": {"common_parameters": false})"};

at::Tensor loss_of(const Model& model, const World& here, int64_t i, int64_t num_parts) {
  const int64_t sample = i * here.size + here.rank;
  return model.loss(sample, sample % 3 != 1) / static_cast<double>(num_parts);
}

// What one step does with the backwards that are its own: from number `first` on, `count` of them.
using OneStep = std::function<void(Engine& engine, const Model& model, int64_t first, int64_t count)>;

void all_then_step(Engine& engine, const Model& model, int64_t first, int64_t count) {
  for (int64_t i = first; i < first + count; ++i) engine.backward(loss_of(model, engine.world(), i, count));
  EXPECT_TRUE(engine.step().updated);
}

std::vector<Trained> train_by_hand(int size, const config::Resolved& config, const std::vector<int64_t>& counts,
                                   const OneStep& step = all_then_step) {
  std::vector<Trained> out(static_cast<size_t>(size));
  test::run_ranks_as_threads(size, [&, run = fresh_run()](test::RankContext& ctx) {
    Model model;
    Engine engine(model.tensors(), config, world(run, ctx.rank(), size));
    int64_t done = 0;
    for (const int64_t count : counts) {
      step(engine, model, done, count);
      done += count;
    }
    EXPECT_EQ(engine.micro_steps(), done);
    EXPECT_EQ(engine.global_steps(), std::ssize(counts));
    engine.wait_for_parameters();
    auto& mine = out[static_cast<size_t>(ctx.rank())];
    for (const auto& [name, tensor] : model.tensors().parameters) mine.parameters.push_back(tensor.detach().clone());
    mine.norm = engine.get_global_grad_norm();
    mine.totals = engine.totals();
  });
  return out;
}

void expect_all(const std::vector<Trained>& got, const Trained& expected, const std::string& which) {
  for (const Trained& one : got) {
    expect_same_bits(one, expected, which);
    EXPECT_EQ(one.norm, expected.norm) << which;
  }
}

class ByHand : public testing::TestWithParam<const char*> {};

TEST_P(ByHand, ManyBackwardsAreTheMicroStepsOfAManagedStep) {
  for (const int size : {1, 2, 3}) {
    const auto expected = train_together(size, settings(size, kPartsByHand, GetParam()), kStepsByHand);
    for (const char* stage : kStagesByHand) {
      const auto got = train_by_hand(size, settings(size, 1, cat(kByHand, GetParam(), stage)),
                                     std::vector<int64_t>(kStepsByHand, kPartsByHand));
      expect_all(got, expected[0], cat(size, " ranks", stage));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ByHand,
                         testing::Values(R"(, "gradient_clipping": 0.05)",
                                         R"(, "bf16": {"enabled": true}, "gradient_clipping": 0.05)",
                                         R"(, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"})"));

TEST(EngineByHand, AStepHasAnyNumberOfBackwards) {
  std::optional<Trained> first;
  for (const char* stage : kStagesByHand) {
    const auto got = train_by_hand(2, settings(2, 4, cat(kByHand, stage)), {1, 3, 2, 1, 4});
    if (!first) first = got[0];
    expect_all(got, *first, stage);
  }
}

// Where ranks do not reduce each backward, they wait for step().
TEST(EngineByHand, WhatIsReducedOnceIsReducedInStep) {
  for (const char* once : {kOnce, kOnceStage1}) {
    const auto expected = train_together(2, settings(2, kPartsByHand, once), kStepsByHand);
    const auto got =
        train_by_hand(2, settings(2, 1, cat(kByHand, once)), std::vector<int64_t>(kStepsByHand, kPartsByHand));
    expect_all(got, expected[0], once);
    EXPECT_EQ(got[0].totals.num_collectives, expected[0].totals.num_collectives) << once;
  }
}

// Added up on each rank, then reduced: by the backward after it, or by step() where there is none.
TEST(EngineByHand, NoSyncHoldsBackInEveryStage) {
  const auto expected = train_together(2, settings(2, kPartsByHand, kOnce), kStepsByHand);
  for (const bool all_held : {false, true}) {
    for (const char* managed : {kByHand, ""}) {
      for (const char* stage : kStagesByHand) {
        const auto got =
            train_by_hand(2, settings(2, 1, cat(managed, stage)), std::vector<int64_t>(kStepsByHand, kPartsByHand),
                          [&](Engine& engine, const Model& model, int64_t from, int64_t count) {
                            const int64_t num_held = all_held ? count : count - 1;
                            {
                              const auto held = engine.no_sync();
                              EXPECT_FALSE(engine.is_gradient_accumulation_boundary());
                              for (int64_t i = from; i < from + num_held; ++i)
                                engine.backward(loss_of(model, engine.world(), i, count));
                            }
                            if (!all_held) engine.backward(loss_of(model, engine.world(), from + num_held, count));
                            EXPECT_TRUE(engine.step().updated);
                          });
        expect_all(got, expected[0], cat(all_held ? "all held" : "all but one", managed, stage));
      }
    }
  }
}

// The engine counts backwards, whether each has its step() or not.
TEST(EngineByHand, BackwardsInsideNoSyncAreMicroSteps) {
  const auto config = settings(2, kPartsByHand, kOnce);
  const auto expected = train_together(2, config, kStepsByHand);
  const auto got = train_by_hand(2, config, std::vector<int64_t>(kStepsByHand, kPartsByHand),
                                 [](Engine& engine, const Model& model, int64_t from, int64_t count) {
                                   {
                                     const auto held = engine.no_sync();
                                     for (int64_t i = from; i < from + count - 1; ++i)
                                       engine.backward(loss_of(model, engine.world(), i, 1));
                                   }
                                   EXPECT_EQ(engine.is_gradient_accumulation_boundary(), false);
                                   engine.backward(loss_of(model, engine.world(), from + count - 1, 1));
                                   EXPECT_TRUE(engine.is_gradient_accumulation_boundary());
                                   EXPECT_TRUE(engine.step().updated);
                                 });
  expect_all(got, expected[0], "counted");
}

TEST(EngineByHand, GradientsAreThereBeforeTheStep) {
  for (const int size : {1, 2}) {
    test::run_ranks_as_threads(size, [&, run = fresh_run()](test::RankContext& ctx) {
      Model model;
      Engine engine(model.tensors(), settings(size, 1, kByHand), world(run, ctx.rank(), size));
      engine.backward(model.loss(0));
      const at::Tensor once = engine.full_grad(model.first);
      engine.backward(model.loss(0));
      EXPECT_TRUE(engine.full_grad(model.first).equal(once * 2));
      EXPECT_TRUE(engine.step().updated);
    });
  }
  test::run_ranks_as_threads(2, [&, run = fresh_run()](test::RankContext& ctx) {
    Model model;
    Engine engine(model.tensors(), settings(2, 1, cat(kByHand, kOnce)), world(run, ctx.rank(), 2));
    engine.backward(model.loss(0));
    expect_refused([&] { engine.full_grad(model.first); }, R"(set "weft": {"reduce_each": "micro_step"})");
    EXPECT_TRUE(engine.step().updated);
  });
}

TEST(EngineByHand, RanksThatCountDifferentlyAreRefused) {
  test::run_ranks_as_threads(2, [run = fresh_run()](test::RankContext& ctx) {
    Model model;
    const auto config = settings(2, 1, ctx.rank() == 1 ? kByHand : "");
    expect_refused([&] { const Engine engine(model.tensors(), config, world(run, ctx.rank(), 2)); },
                   "managed_gradient_accumulation");
  });
}

std::string said_by(int size, const config::Resolved& config, const std::function<void(Engine&)>& what) {
  testing::internal::CaptureStderr();
  test::run_ranks_as_threads(size, [&, run = fresh_run()](test::RankContext& ctx) {
    Model model;
    Engine engine(model.tensors(), config, world(run, ctx.rank(), size));
    what(engine);
  });
  return testing::internal::GetCapturedStderr();
}

// 1328 elements. Every engine says it, and says it once.
TEST(EngineByHand, NoSyncSaysWhatItCosts) {
  const auto enter_twice = [](Engine& engine) {
    for (int i = 0; i < 2; ++i) const auto held = engine.no_sync();
  };
  for (const int stage : {0, 1, 2, 3}) {
    for (const bool is_bf16 : {false, true}) {
      const std::string more =
          cat(R"(, "zero_optimization": {"stage": )", stage, "}", is_bf16 ? R"(, "bf16": {"enabled": true})" : "");
      const std::string said = said_by(2, settings(2, 1, more), enter_twice);
      EXPECT_EQ(count_of(said, "no_sync()"), stage >= 2 ? 1U : 0U) << said;
      if (stage < 2) continue;
      EXPECT_NE(said.find(cat("no_sync() in stage ", stage, " keeps whole gradients until they are reduced: ",
                              is_bf16 ? "2.6 KiB" : "5.2 KiB", " more a rank")),
                std::string::npos)
          << said;
    }
  }
  EXPECT_EQ(count_of(said_by(1, settings(1, 1, R"(, "zero_optimization": {"stage": 2})"), enter_twice), "no_sync()"),
            0U)
      << "alone a rank keeps them anyway";
}

// Nobody can tell from outside what backward does.
struct Recomputing : torch::autograd::Function<Recomputing> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& input) { return input.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return gradients;
  }
};

TEST(EngineByHand, AGraphThatIsWaitedForSaysWhatItCosts) {
  const auto train = [](bool recomputes, const std::string& zero) {
    testing::internal::CaptureStderr();
    test::run_ranks_as_threads(2, [&, run = fresh_run()](test::RankContext& ctx) {
      Model model;
      Engine engine(model.tensors(), settings(2, 1, cat(R"(, "zero_optimization": {)", zero, "}")),
                    world(run, ctx.rank(), 2));
      for (int64_t i = 0; i < 4; ++i) {
        engine.backward(recomputes ? Recomputing::apply(model.loss(i)) : model.loss(i));
        engine.step();
      }
    });
    return count_of(testing::internal::GetCapturedStderr(), "keeps whole gradients until they are reduced: 5.2 KiB");
  };
  EXPECT_EQ(train(true, R"("stage": 2)"), 1U) << "once";
  EXPECT_EQ(train(false, R"("stage": 2)"), 0U);
  EXPECT_EQ(train(true, R"("stage": 2, "overlap_comm": true)"), 0U);
  EXPECT_EQ(train(true, R"("stage": 1)"), 0U) << "which keeps them anyway";
}

TEST(EngineByHand, OverlapThatCannotBeIsSaid) {
  const auto nothing = [](Engine&) {};
  const std::string overlap = R"(, "zero_optimization": {"stage": 0, "overlap_comm": true})";
  const std::string said =
      said_by(2, settings(2, 1, cat(kByHand, overlap, R"(, "weft": {"reduce_each": "step"})")), nothing);
  EXPECT_EQ(count_of(said, R"("overlap_comm" has no effect)"), 1U) << said;
  EXPECT_EQ(count_of(said_by(2, settings(2, 1, cat(kByHand, overlap)), nothing), "has no effect"), 0U);
}

}  // namespace
}  // namespace weft
