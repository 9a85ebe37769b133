// Engines of several ranks, as threads over shared memory, on a small model of plain tensors.
#include "weft/engine/engine.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/gradients_lost.h"

namespace weft {
namespace {

constexpr int kNumSteps = 6;

TEST(Engine, TwoRanksAreOneRankThatAccumulatesTwice) {
  const auto alone = train_together(1, settings(1, 2), kNumSteps);
  const auto both = train_together(2, settings(2, 1), kNumSteps);
  // Halving is exact, so the order of halving and adding is all the same.
  for (size_t rank = 0; rank < 2; ++rank) {
    expect_same_bits(both[rank], alone[0], cat("rank ", rank));
    for (size_t step = 0; step < kNumSteps; ++step)
      EXPECT_EQ(both[rank].losses[step], alone[0].losses[2 * step + rank]) << step;
  }
}

TEST(Engine, NoSettingOfTheReductionChangesABit) {
  const auto expected = train_together(2, settings(2, 2), kNumSteps);
  struct Case {
    const char* name;
    const char* more;
  };
  const Case cases[] = {
      {"overlap", R"(, "zero_optimization": {"stage": 0, "overlap_comm": true})"},
      {"small buckets", R"(, "zero_optimization": {"stage": 0, "overlap_comm": true, "reduce_bucket_size": 64})"},
      {"small buckets, no overlap", R"(, "zero_optimization": {"stage": 0, "reduce_bucket_size": 200})"},
      {"not contiguous", R"(, "zero_optimization": {"stage": 0, "overlap_comm": true, "contiguous_gradients": false})"},
      {"prescaled", R"(, "prescale_gradients": true)"},
      {"predivided", R"(, "gradient_predivide_factor": 2)"},
  };
  for (const auto& one : cases) {
    const auto got = train_together(2, settings(2, 2, one.more), kNumSteps);
    for (int rank = 0; rank < 2; ++rank) {
      expect_same_bits(got[static_cast<size_t>(rank)], expected[0], one.name);
      EXPECT_EQ(got[static_cast<size_t>(rank)].losses, expected[static_cast<size_t>(rank)].losses) << one.name;
      EXPECT_EQ(got[static_cast<size_t>(rank)].norm, expected[0].norm) << one.name;
    }
  }
}

TEST(Engine, StateOfOneLayoutGoesIntoAnother) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const auto config = settings(2, 1, R"(, "zero_optimization": {"stage": 1, "reduce_bucket_size": 100})");
    Model model, other;
    Engine first(model.tensors(), config, world(run, ctx.rank(), 2));
    Engine second(other.tensors(), settings(2, 1), world(cat(run, "b"), ctx.rank(), 2));
    const auto step = [&](Engine& engine, const Model& of, int64_t sample) {
      engine.backward(of.loss(2 * sample + ctx.rank()));
      engine.step();
    };
    for (int64_t i = 0; i < 3; ++i) step(first, model, i);
    const auto state = first.optimizer_state();
    for (size_t i = 0; i < 4; ++i) {
      const at::NoGradGuard no_grad;
      other.tensors().parameters[i].second.copy_(model.tensors().parameters[i].second);
    }
    second.set_optimizer_state(state);
    step(first, model, 3);
    step(second, other, 3);
    for (size_t i = 0; i < 4; ++i)
      EXPECT_TRUE(model.tensors().parameters[i].second.detach().equal(other.tensors().parameters[i].second.detach()))
          << i;
  });
}

TEST(Engine, RanksThatDifferAreRefusedWithTheDifference) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    Model model;
    auto tensors = model.tensors();
    if (ctx.rank() == 1) tensors.parameters[2].second = parameter({40, 9}, 3);
    try {
      Engine engine(tensors, settings(2, 1), world(run, ctx.rank(), 2));
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_NE(error.text().what.find("'second' has shape [40, 8] on rank 0 and [40, 9] on rank 1"), std::string::npos)
          << error.what();
    }
  });
}

TEST(Engine, StartsFromTheWeightsOfRankZero) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(3, [&](test::RankContext& ctx) {
    Model model;
    const at::Tensor buffer = at::full({3}, ctx.rank());
    const at::Tensor sliced = numbers({6, 4}, ctx.rank()).t().detach();
    model.first.detach().add_(ctx.rank());
    auto tensors = model.tensors();
    tensors.buffers = {{"count", buffer}, {"sliced", sliced}};
    Engine engine(tensors, settings(3, 1), world(run, ctx.rank(), 3));
    EXPECT_TRUE(model.first.detach().equal(numbers({24, 40}, 1)));
    EXPECT_EQ(buffer.sum().item<int64_t>(), 0);
    EXPECT_TRUE(sliced.equal(numbers({6, 4}, 0).t()));
  });
}

// SGD moves by lr times the gradient, so the step's length tells what was left of it.
TEST(Engine, ClipsByTheGlobalNorm) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    Model model;
    auto config = settings(2, 1, R"(, "gradient_clipping": 1e-3)");
    config.optimizer.type = "SGD";
    Engine engine(model.tensors(), config, world(run, ctx.rank(), 2));
    const at::Tensor before = model.first.detach().clone();
    engine.backward(model.loss(ctx.rank()));
    engine.step();
    EXPECT_GT(engine.get_global_grad_norm(), 1e-3);
    EXPECT_LT((model.first.detach() - before).norm().item<double>(), 1.01e-3 * 0.01);
    EXPECT_GT((model.first.detach() - before).norm().item<double>(), 0);
  });
}

TEST(Engine, AGradientThatIsNotFiniteIsSkipped) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    Model model;
    Engine engine(model.tensors(), settings(2, 1), world(run, ctx.rank(), 2));
    engine.backward(model.loss(0));
    engine.step();
    const at::Tensor before = model.first.detach().clone();
    engine.backward(ctx.rank() == 1 ? model.loss(1) * std::numeric_limits<float>::quiet_NaN() : model.loss(1));
    EXPECT_FALSE(engine.step().updated);
    EXPECT_EQ(engine.skipped_steps(), 1);
    EXPECT_TRUE(model.first.detach().equal(before));
    engine.backward(model.loss(2));
    EXPECT_TRUE(engine.step().updated);
    EXPECT_TRUE(model.first.detach().isfinite().all().item<bool>());
  });
}

// Hopeless, on all ranks alike, but nothing is broken: state can be saved, and better batches go on from the same weights.
TEST(Engine, IsWholeWhereGradientsAreLost) {
  for (const char* more : {R"(, "weft": {"shard_update": false})", R"(, "zero_optimization": {"stage": 2})",
                           R"(, "zero_optimization": {"stage": 1}, "weft": {"common_parameters": false})"}) {
    const std::string run = fresh_run();
    test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
      Model model;
      Engine engine(model.tensors(), settings(2, 1, cat(R"(, "gradient_clipping": 1)", more)),
                    world(run, ctx.rank(), 2));
      const auto step = [&](double times) {
        engine.backward(model.loss(1) * times);
        return engine.step().updated;
      };
      EXPECT_TRUE(step(1));
      const at::Tensor before = model.first.detach().clone();
      for (int i = 0; i < 9; ++i) EXPECT_FALSE(step(std::numeric_limits<double>::infinity()));
      for (int i = 0; i < 2; ++i) {
        try {
          step(std::numeric_limits<double>::infinity());
          ADD_FAILURE() << "hoped on";
        } catch (const GradientsLost& lost) {
          EXPECT_EQ(lost.text().what, cat(10 + i, " steps in a row, at learning rate 0.01"));
        }
      }
      const auto state = engine.optimizer_state();
      const auto count = std::ranges::find(state, "step", [](const auto& one) { return one.first; });
      ASSERT_NE(count, state.end());
      EXPECT_EQ(count->second.item<int64_t>(), 1);
      EXPECT_TRUE(model.first.detach().equal(before));
      EXPECT_TRUE(step(1));
      EXPECT_FALSE(model.first.detach().equal(before)) << more;
      EXPECT_FALSE(step(std::numeric_limits<double>::infinity())) << "one is no reason yet";
    });
  }
}

TEST(Engine, NoSyncAccumulatesByHand) {
  const auto expected = train_together(2, settings(2, 2, R"(, "weft": {"reduce_each": "step"})"), 1);
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    Model model;
    Engine engine(model.tensors(), settings(2, 1), world(run, ctx.rank(), 2));
    {
      const auto held = engine.no_sync();
      engine.backward(model.loss(ctx.rank(), ctx.rank() % 3 != 1) / 2);
      EXPECT_FALSE(engine.step().updated);
    }
    EXPECT_EQ(engine.totals().num_collectives, 0);
    engine.backward(model.loss(2 + ctx.rank(), (2 + ctx.rank()) % 3 != 1) / 2);
    EXPECT_TRUE(engine.step().updated);
    EXPECT_TRUE(model.first.detach().equal(expected[0].parameters[0]));
  });
}

TEST(Engine, SparseGradientsAreMadeDense) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    std::vector<at::Tensor> trained;
    for (const bool sparse : {false, true}) {
      const at::Tensor table = parameter({50, 4}, 1);
      Engine engine({{{"table", table}}, {}}, settings(2, 2), world(cat(run, sparse), ctx.rank(), 2));
      for (int i = 0; i < 6; ++i) {
        const at::Tensor rows = at::arange(8, at::kLong) * 3 + i + ctx.rank();
        engine.backward(at::embedding(table, rows, -1, false, sparse).pow(2).sum());
        engine.step();
      }
      trained.push_back(table.detach().clone());
    }
    EXPECT_TRUE(trained[0].equal(trained[1]));
  });
}

TEST(Engine, TunedBucketsChangeNoBit) {
  const std::string overlap = R"(, "zero_optimization": {"stage": 0, "overlap_comm": true}, "gradient_clipping": 0.1)";
  const auto expected = train_together(2, settings(2, 2, overlap), kNumSteps);
  const auto tuned = train_together(2, settings(2, 2, overlap + R"(, "weft": {"bucket": "auto"})"), kNumSteps);
  for (size_t rank = 0; rank < 2; ++rank) {
    expect_same_bits(tuned[rank], expected[0], cat("rank ", rank));
    EXPECT_EQ(tuned[rank].losses, expected[rank].losses);
    EXPECT_FALSE(expected[rank].tuning.has_value());
    ASSERT_TRUE(tuned[rank].tuning.has_value());
    EXPECT_GE(tuned[rank].tuning->num_buckets, 1);
    EXPECT_GE(tuned[rank].tuning->expected_s, tuned[rank].tuning->bound_s - 1e-9);
    EXPECT_GT(tuned[rank].tuning->bytes_per_s, 0);
  }
}

TEST(Engine, BucketsThatCannotBeTunedAreSaid) {
  testing::internal::CaptureStderr();
  const auto untuned = train_together(2, settings(2, 2, R"(, "weft": {"bucket": "auto"})"), 3);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_FALSE(untuned[0].tuning.has_value());
  EXPECT_NE(said.find(R"("overlap_comm": true)"), std::string::npos) << said;
}

}  // namespace
}  // namespace weft
