// What is shared out, and when it is brought back, changes no bit.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/plan/ledger.h"
#include "weft/plan/schedule.h"

namespace weft {
namespace {

constexpr int kStageSteps = 6;

constexpr const char
    *kClippedFp32 = R"(, "gradient_clipping": 0.05)",
    *kFree = R"(, "gradient_clipping": 0)", *kClippedBf16 = R"(, "bf16": {"enabled": true}, "gradient_clipping": 0.05)",
    *kClippedFp16 =
        R"(, "fp16": {"enabled": true, "initial_scale_power": 17, "hysteresis": 1}, "gradient_clipping": 0.05)",
    *kWide = R"(, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"})";

struct Setting {
  const char* name;
  int accumulation;
  const char* more;
};

class EngineBits : public testing::TestWithParam<Setting> {};

TEST_P(EngineBits, AreTheSameInEveryStage) {
  const auto [name, accumulation, more] = GetParam();
  for (const int size : {1, 2, 3, 4}) {
    const auto expected = train_together(size, settings(size, accumulation, more), kStageSteps);
    for (const char* zero :
         {R"(, "weft": {"shard_update": false})", R"(, "zero_optimization": {"stage": 1})",
          R"(, "zero_optimization": {"stage": 1, "overlap_comm": true, "reduce_bucket_size": 300})",
          R"(, "zero_optimization": {"stage": 1, "contiguous_gradients": false}, "weft": {"common_parameters": false})",
          R"(, "zero_optimization": {"stage": 1, "overlap_comm": true}, "weft": {"bucket": "auto"})",
          R"(, "zero_optimization": {"stage": 2})",
          R"(, "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 300})",
          R"(, "zero_optimization": {"stage": 2, "reduce_bucket_size": 1}, "weft": {"common_parameters": false})",
          R"(, "zero_optimization": {"stage": 2}, "weft": {"common_parameters": false, "lazy_gather": false})",
          R"(, "zero_optimization": {"stage": 2, "overlap_comm": true}, "weft": {"bucket": "auto"})",
          R"(, "zero_optimization": {"stage": 3})",
          R"(, "zero_optimization": {"stage": 3}, "weft": {"common_parameters": false})",
          R"(, "zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_bucket_size": 100,
              "stage3_param_persistence_threshold": 0}, "weft": {"common_parameters": false})",
          R"(, "zero_optimization": {"stage": 3, "reduce_bucket_size": 1, "stage3_param_persistence_threshold": 10,
              "stage3_max_live_parameters": 0}, "weft": {"common_parameters": false})"}) {
      const auto got = train_together(size, settings(size, accumulation, cat(more, zero)), kStageSteps);
      for (size_t rank = 0; rank < got.size(); ++rank) {
        expect_same_bits(got[rank], expected[0], cat(size, " ranks, ", zero));
        EXPECT_EQ(got[rank].losses, expected[rank].losses) << zero;
        EXPECT_EQ(got[rank].norm, expected[0].norm) << zero;
        EXPECT_EQ(got[rank].num_skipped, expected[0].num_skipped) << zero;
        EXPECT_EQ(got[rank].loss_scale, expected[0].loss_scale) << zero;
      }
    }
  }
}

TEST(EngineInFp16, SkipsUntilTheScaleFits) {
  const auto trained = train_together(2, settings(2, 1, kClippedFp16), 12);
  EXPECT_GT(trained[0].num_skipped, 0);
  EXPECT_LT(trained[0].num_skipped, 12);
  EXPECT_EQ(trained[0].loss_scale, 131072 / std::pow(2, trained[0].num_skipped));
  EXPECT_TRUE(std::isfinite(trained[0].norm));
}

INSTANTIATE_TEST_SUITE_P(All, EngineBits,
                         testing::Values(Setting{"clipped", 1, kClippedFp32}, Setting{"clipped_4", 4, kClippedFp32},
                                         Setting{"free", 1, kFree}, Setting{"free_4", 4, kFree},
                                         Setting{"bf16", 1, kClippedBf16}, Setting{"bf16_4", 4, kClippedBf16},
                                         Setting{"fp16_2", 2, kClippedFp16}, Setting{"fp32_sums_of_bf16_3", 3, kWide}),
                         [](const auto& one) { return std::string(one.param.name); });

// What bf16.immediate_grad_update asks for: no gradient waits for the end of backward in bf16, in any micro-step.
TEST(EngineInBf16, GradientsAreAddedInFp32AsTheyCome) {
  for (const int stage : {0, 1}) {
    const std::string zero = cat(R"(, "zero_optimization": {"stage": )", stage, "}");
    test::run_ranks_as_threads(2, [&, run = fresh_run()](test::RankContext& ctx) {
      Model model;
      Engine engine(model.tensors(), settings(2, 3, cat(kWide, zero)), world(run, ctx.rank(), 2));
      int num_seen = 0;
      for (int64_t i = 0; i < 6; ++i) {
        const at::Tensor before_tanh = at::mm(numbers({5, 24}, i).to(at::kBFloat16), model.first);
        before_tanh.register_hook([&](const at::Tensor&) {  // the second layer's has come, the first one's has not
          EXPECT_EQ(model.second.grad().scalar_type(), at::kFloat) << "micro-step " << i;
          ++num_seen;
        });
        engine.backward(at::mm(before_tanh.tanh(), model.second).pow(2).mean());
        engine.step();
      }
      EXPECT_EQ(num_seen, 6);
    });
  }
}

TEST(EngineInBf16, WhatNoSyncHoldsBackIsAddedInFp32) {
  std::vector<Trained> first;
  for (const char* zero : {R"(, "weft": {"shard_update": false})", R"(, "zero_optimization": {"stage": 1})",
                           R"(, "zero_optimization": {"stage": 2})",
                           R"(, "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 300})",
                           R"(, "zero_optimization": {"stage": 3}, "weft": {"common_parameters": false})"}) {
    std::vector<Trained> got(2);
    test::run_ranks_as_threads(2, [&, run = fresh_run()](test::RankContext& ctx) {
      Model model;
      Engine engine(model.tensors(), settings(2, 1, cat(kWide, zero)), world(run, ctx.rank(), 2));
      for (int64_t i = 0; i < 5 * kStageSteps; ++i) {
        std::optional<Engine::NoSync> held;
        if (i % 5 != 4) held.emplace(engine);
        engine.backward(model.loss(2 * i + ctx.rank(), i % 3 != 1));
        engine.step();
      }
      engine.wait_for_parameters();
      for (const auto& [name, tensor] : model.tensors().parameters)
        got[static_cast<size_t>(ctx.rank())].parameters.push_back(tensor.detach().clone());
    });
    if (first.empty()) first = got;
    for (const Trained& one : got) expect_same_bits(one, first[0], zero);
  }
}

TEST(EngineOptimizers, HaveTheSameBitsInEveryStage) {
  for (const char* type : {"Lamb", "Adagrad", "Lion", "SGD"}) {
    std::vector<Trained> first;
    for (const char* zero : {R"(, "zero_optimization": {"stage": 0}, "weft": {"shard_update": false})",
                             R"(, "zero_optimization": {"stage": 1, "reduce_bucket_size": 300})",
                             R"(, "zero_optimization": {"stage": 2}, "weft": {"common_parameters": false})",
                             R"(, "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 9},
                                 "weft": {"common_parameters": false})"}) {
      auto config = settings(3, 2, zero);
      config.optimizer.type = type;
      const auto got = train_together(3, config, kStageSteps);
      if (first.empty()) first = got;
      for (size_t rank = 0; rank < got.size(); ++rank) expect_same_bits(got[rank], first[0], cat(type, zero));
      EXPECT_EQ(got[0].losses, first[0].losses) << type << zero;
    }
  }
}

// Slices of nothing but padding, by every optimizer.
// Ranks whose slices are padding alone. All have the same gradient, so that their mean is that of one rank alone.
at::Tensor three_steps_of_three_elements(const World& here, const char* type, const char* zero) {
  const at::Tensor weight = parameter({3}, 1);
  auto config = settings(here.size, 1, zero);
  config.optimizer.type = type;
  Engine engine({{{"weight", weight}}, {}}, config, here);
  for (int i = 0; i < 3; ++i) {
    engine.backward(weight.pow(2).sum());
    EXPECT_TRUE(engine.step().updated);
  }
  return engine.full_param(weight);
}

TEST(EngineStages, MoreRanksThanElements) {
  for (const char* type : {"AdamW", "Lamb", "SGD", "Lion", "Adagrad"}) {
    const at::Tensor alone = three_steps_of_three_elements(world(fresh_run(), 0, 1), type, "");
    EXPECT_FALSE(alone.equal(parameter({3}, 1)));
    for (const char* zero : {R"(, "zero_optimization": {"stage": 0})", R"(, "zero_optimization": {"stage": 1})",
                             R"(, "zero_optimization": {"stage": 2})", R"(, "zero_optimization": {"stage": 3})",
                             R"(, "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
                                 "weft": {"common_parameters": false})"}) {
      test::run_ranks_as_threads(4, [&, run = fresh_run()](test::RankContext& ctx) {
        EXPECT_TRUE(three_steps_of_three_elements(world(run, ctx.rank(), 4), type, zero).equal(alone)) << type << zero;
      });
    }
  }
}

// Whoever reads a parameter sees the new value, by whatever operator, without having called anything.
TEST(EngineStages, AParameterIsWholeWhenItIsRead) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    Model model;
    Engine engine(model.tensors(), settings(2, 1, R"(, "weft": {"common_parameters": false})"),
                  world(run, ctx.rank(), 2));
    for (int i = 0; i < 20; ++i) {
      engine.backward(model.loss(i));
      engine.step();
      const at::Tensor both = numbers({2, 40}, 0);
      both[ctx.rank()].copy_(model.bias.detach());
      engine.world().group->all_gather(both[ctx.rank()].clone(), both);
      EXPECT_TRUE(both[0].equal(both[1])) << "step " << i;
    }
  });
}

// The peer is gone while its slices are waited for behind an operator: the next call says so.
TEST(EngineStages, APeerLostBehindForwardIsNamed) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    Model model;
    const auto config = settings(2, 1, R"(, "weft": {"common_parameters": false})");
    const auto step = [&](Engine& engine, int64_t i) {
      engine.backward(model.loss(i));
      engine.step();
    };
    Engine engine(model.tensors(), config, world(run, ctx.rank(), 2, 2));
    step(engine, 0);
    if (ctx.rank() == 1) return;
    try {
      for (int64_t i = 1; i < 4; ++i) step(engine, i);
      ADD_FAILURE() << "nobody was missed";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
    }
  });
}

// Whatever the ranks, the stage and the type: what a rank says it keeps is what the ledger of its plan says, but for padding.
TEST(EngineMemory, IsWhatTheLedgerSays) {
  for (const char* more : {R"(, "gradient_clipping": 0)", R"(, "bf16": {"enabled": true})",
                           R"(, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"})"}) {
    for (const int size : {1, 2, 3, 4}) {
      for (const int stage : {0, 1, 2, 3}) {
        for (const int accumulation : {1, 2}) {
          const std::string run = fresh_run();
          test::run_ranks_as_threads(size, [&](test::RankContext& ctx) {
            const at::Tensor weight = parameter({251, 67}, 1), bias = parameter({67}, 2);
            const auto config =
                settings(size, accumulation, cat(R"(, "zero_optimization": {"stage": )", stage, "}", more));
            Engine engine({{{"weight", weight}, {"bias", bias}}, {}}, config, world(run, ctx.rank(), size));
            for (int i = 0; i < accumulation; ++i) {
              engine.backward((weight * bias).pow(2).mean());
              engine.step();
            }
            const auto ledger = make_ledger(engine.plan(), stage);
            const EngineStateBytes kept = engine.state_bytes();
            const auto expect_near = [&](int64_t bytes, plan::MemoryKind kind) {
              const auto planned = static_cast<double>(ledger.bytes(kind));
              EXPECT_NEAR(static_cast<double>(bytes), planned, 0.01 * planned)
                  << name_of(kind) << " of " << size << " ranks, stage " << stage << ", " << accumulation << more;
            };
            expect_near(kept.params, plan::MemoryKind::kParameters);
            expect_near(kept.grads, plan::MemoryKind::kGradients);
            expect_near(kept.optimizer, plan::MemoryKind::kOptimizer);
          });
        }
      }
    }
  }
}

class EngineTraffic : public testing::TestWithParam<int> {};

TEST_P(EngineTraffic, SendsWhatThePlanSays) {
  for (const int size : {1, 2, 3}) {
    const std::string run = fresh_run();
    test::run_ranks_as_threads(size, [&](test::RankContext& ctx) {
      Model model;
      const std::string zero = cat(R"(, "zero_optimization": {"reduce_bucket_size": 500, "stage": )", GetParam(), "}");
      Engine engine(model.tensors(), settings(size, 2, zero), world(run, ctx.rank(), size));
      for (int i = 0; i < 8; ++i) {
        engine.backward(model.loss(i));
        engine.step();
      }
      const auto schedule = make_schedule(engine.plan(), GetParam());
      EXPECT_EQ(engine.totals().num_collectives, size == 1 ? 0 : 4 * schedule.num_collectives());
      EXPECT_EQ(engine.totals().sent_bytes, 4 * schedule.sent_bytes());
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, EngineTraffic, testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace weft
