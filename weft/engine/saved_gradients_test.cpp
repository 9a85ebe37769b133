// A step that was saved under way is gone on with: to the bit by as many ranks, with the same gradient by others.
#include "weft/engine/saved_gradients.h"

#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/support/ranks.h"
#include "tests/support/temp_dir.h"
#include "weft/engine/engine_test_impl.h"

namespace weft {
namespace {

constexpr int64_t kParts = 4;

struct How {
  int world = 2;
  int64_t parts = kParts;
  std::string more;
};

struct Mark {
  std::string store;
  int64_t at = 0;  // micro-steps
};

using Tensors = std::vector<at::Tensor>;

void micro_step(Engine& engine, const Model& model, int64_t i, bool held_back) {
  const World& here = engine.world();
  const int64_t sample = i * here.size + here.rank;
  std::optional<Engine::NoSync> no_sync;
  if (held_back) no_sync.emplace(engine);
  engine.backward(model.loss(sample, sample % 3 != 1));
  engine.step();
}

// Parameters after so many micro-steps. Those of `held_back` reduce nothing. Saves or loads at a mark.
struct Course {
  How how;
  int64_t num_micro_steps = 0;
  std::vector<int64_t> held_back = {};
  std::optional<Mark> save = {}, load = {};
};

Tensors run(const Course& what) {
  Tensors out;
  const std::string id = fresh_run();
  test::run_ranks_as_threads(what.how.world, [&](test::RankContext& ctx) {
    const World here = world(id, ctx.rank(), what.how.world);
    Model model;
    Engine engine(model.tensors(), settings(what.how.world, what.how.parts, what.how.more), here);
    int64_t from = 0;
    if (what.load) {
      const auto loaded = engine.load_checkpoint(what.load->store);
      ASSERT_TRUE(loaded);
      from = what.load->at;
      EXPECT_EQ(engine.micro_steps(), from);
      EXPECT_EQ(loaded->micro_steps_dropped, 0);
    }
    for (int64_t i = from; i < what.num_micro_steps; ++i) {
      micro_step(engine, model, i, std::ranges::find(what.held_back, i) != what.held_back.end());
      if (what.save && what.save->at == i + 1) engine.save_checkpoint(what.save->store, {.in_background = false});
    }
    Tensors mine;
    for (const auto& [name, tensor] : model.tensors().parameters) mine.push_back(engine.full_param(tensor));
    if (ctx.rank() == 0) out = std::move(mine);
  });
  return out;
}

// Sums that each rank has alone, in and outside of buckets; sums of all ranks, whole and in slices.
const std::vector<std::string> kLayouts = {
    R"(, "weft": {"shard_update": false, "reduce_each": "step"})",
    R"(, "zero_optimization": {"contiguous_gradients": false}, "weft": {"shard_update": false, "reduce_each": "step"})",
    R"(, "weft": {"shard_update": false})",
    R"(, "zero_optimization": {"stage": 1, "reduce_bucket_size": 300}, "weft": {"reduce_each": "step"})",
    R"(, "zero_optimization": {"stage": 1, "reduce_bucket_size": 300}, "weft": {"common_parameters": false})",
    R"(, "zero_optimization": {"stage": 2, "reduce_bucket_size": 300})",
    R"(, "zero_optimization": {"stage": 3, "reduce_bucket_size": 100, "stage3_max_live_parameters": 0},
        "weft": {"common_parameters": false})"};

class SavedGradients : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(SavedGradients, AsManyRanksEndTheStepWithTheSameBits) {
  for (const std::string& layout : kLayouts) {
    const How how{.world = 2, .parts = kParts, .more = cat(GetParam().second, layout)};
    for (const int64_t at : {1, 3, 6}) {
      const test::TempDir dir;
      const Mark mark{.store = dir / "store", .at = at};
      const Tensors whole = run({.how = how, .num_micro_steps = 3 * kParts, .save = mark});
      expect_equal(run({.how = how, .num_micro_steps = 3 * kParts, .load = mark}), whole, cat(how.more, " at ", at));
    }
  }
}

// Where accumulation is the user's, and where it is mixed: what was reduced already, and what is held back.
TEST_P(SavedGradients, WhatNoSyncHoldsBackIsSaved) {
  for (const std::string& layout : kLayouts) {
    const How how{.world = 3, .parts = kParts, .more = cat(GetParam().second, layout)};
    for (const std::vector<int64_t>& held_back : {std::vector<int64_t>{4, 5}, std::vector<int64_t>{5}}) {
      const test::TempDir dir;
      const Mark mark{.store = dir / "store", .at = 6};
      const Course whole{.how = how, .num_micro_steps = 2 * kParts, .held_back = held_back, .save = mark};
      Course resumed = whole;
      resumed.save.reset();
      resumed.load = mark;
      expect_equal(run(resumed), run(whole), how.more);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SavedGradients,
    testing::Values(std::pair{"fp32", ""}, std::pair{"bf16", R"(, "bf16": {"enabled": true})"},
                    std::pair{"bf16_accumulators",
                              R"(, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "bf16"})"},
                    std::pair{"fp16", R"(, "fp16": {"enabled": true, "initial_scale_power": 4})"}),
    [](const auto& one) { return std::string(one.param.first); });

// The mean over ranks of what each micro-step gave, summed over the micro-steps.
Tensors gradients_by_hand(const std::vector<std::pair<int64_t, int>>& micro_steps_and_worlds) {
  const Model model;
  Tensors sums;
  for (const auto& [name, tensor] : model.tensors().parameters) sums.push_back(at::zeros_like(tensor));
  for (const auto& [micro_step, size] : micro_steps_and_worlds) {
    for (int64_t rank = 0; rank < size; ++rank) {
      const int64_t sample = micro_step * size + rank;
      model.loss(sample, sample % 3 != 1).backward();
      size_t i = 0;
      for (const auto& [name, tensor] : model.tensors().parameters) {
        if (tensor.grad().defined()) sums[i] += tensor.grad() / static_cast<double>(size);
        tensor.mutable_grad().reset();
        ++i;
      }
    }
  }
  return sums;
}

struct Gathered {
  LoadedCheckpoint loaded;
  Tensors gradients;
};

// Loads, and goes on to the end of the step with samples of the micro-steps from `first` on.
Gathered go_on_to_boundary(const std::string& store, const How& how, int64_t first) {
  Gathered out;
  const std::string id = fresh_run();
  test::run_ranks_as_threads(how.world, [&](test::RankContext& ctx) {
    Model model;
    Engine engine(model.tensors(), settings(how.world, how.parts, how.more), world(id, ctx.rank(), how.world));
    const auto loaded = engine.load_checkpoint(store);
    ASSERT_TRUE(loaded);
    for (int64_t i = first; !engine.is_gradient_accumulation_boundary(); ++i) micro_step(engine, model, i, false);
    const int64_t sample = (first + how.parts - loaded->micro_steps_done - 1) * how.world + ctx.rank();
    engine.backward(model.loss(sample, sample % 3 != 1));
    Tensors mine;
    for (const auto& [name, tensor] : model.tensors().parameters) mine.push_back(engine.full_grad(tensor));
    engine.step();
    EXPECT_EQ(engine.global_steps(), loaded->step + 1);
    if (ctx.rank() == 0) out = {*loaded, std::move(mine)};
  });
  return out;
}

void save_at(const Mark& mark, const How& how, std::optional<data::SamplerState> data = {}) {
  const std::string id = fresh_run();
  test::run_ranks_as_threads(how.world, [&](test::RankContext& ctx) {
    Model model;
    Engine engine(model.tensors(), settings(how.world, how.parts, how.more), world(id, ctx.rank(), how.world));
    for (int64_t i = 0; i < mark.at; ++i) micro_step(engine, model, i, false);
    engine.save_checkpoint(mark.store, {.data = data, .in_background = false});
  });
}

void expect_close(const Tensors& a, const Tensors& b, double divided_by, const std::string& which) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(a[i].allclose(b[i] / divided_by, 1e-5, 1e-7)) << which << ", parameter " << i;
}

TEST(SavedGradientsElsewhere, OtherRanksAndLayoutsHaveTheSameGradient) {
  size_t turn = 0;
  for (const std::string& before : kLayouts) {
    const test::TempDir dir;
    save_at({.store = dir / "s", .at = 2}, {.world = 3, .more = before});
    for (const int size : {1, 3, 4}) {
      const std::string& after = kLayouts[++turn % kLayouts.size()];
      const auto [loaded, gradients] = go_on_to_boundary(dir / "s", {.world = size, .more = after}, 10);
      EXPECT_EQ(loaded.micro_steps_done, 2);
      expect_close(gradients, gradients_by_hand({{0, 3}, {1, 3}, {10, size}, {11, size}}), kParts,
                   cat(before, " -> ", size, after));
    }
  }
}

TEST(SavedGradientsElsewhere, SumsThatAreNotMeansStaySums) {
  const std::string sum = R"(, "gradient_allreduce_op": "sum")";
  for (const std::string& before : {kLayouts[0], kLayouts[5]}) {
    const test::TempDir dir;
    save_at({.store = dir / "s", .at = 2}, {.world = 2, .more = before});
    save_at({.store = dir / "sum", .at = 2}, {.world = 2, .more = sum + before});
    for (const std::string& after : {kLayouts[0], kLayouts[5]}) {
      // The first half weighs twice as much as its mean does.
      const auto mean = go_on_to_boundary(dir / "s", {.world = 1, .more = after}, 10);
      const auto summed = go_on_to_boundary(dir / "sum", {.world = 1, .more = sum + after}, 10);
      const Tensors later = gradients_by_hand({{10, 1}, {11, 1}});
      for (size_t i = 0; i < later.size(); ++i) {
        const at::Tensor first_half = mean.gradients[i] - later[i] / kParts;
        EXPECT_TRUE(summed.gradients[i].allclose(2 * first_half + later[i] / kParts, 1e-4, 1e-6)) << after << i;
      }
    }
  }
}

TEST(SavedGradientsElsewhere, TheSamePartOfAStepIsDoneWithOtherParts) {
  const test::TempDir dir;
  save_at({.store = dir / "s", .at = 2}, {.world = 2, .more = kLayouts[3]});
  const auto [loaded, gradients] = go_on_to_boundary(dir / "s", {.world = 4, .parts = 2, .more = kLayouts[5]}, 7);
  EXPECT_EQ(loaded.micro_steps_done, 1);
  // Each half of the step weighs a half.
  Tensors expected = gradients_by_hand({{0, 2}, {1, 2}});
  const Tensors rest = gradients_by_hand({{7, 4}});
  for (size_t i = 0; i < rest.size(); ++i) expected[i] = expected[i] / 4 + rest[i] / 2;
  expect_close(gradients, expected, 1, "");
}

TEST(SavedGradientsElsewhere, APartThatCannotBeDividedBeginsAnew) {
  const test::TempDir dir;
  const data::SamplerState data{.epoch = 1, .consumed = 35, .num_samples = 1000, .seed = 3, .shuffle = true};
  save_at({.store = dir / "s", .at = 5}, {.world = 2, .more = kLayouts[3]}, data);
  const auto [loaded, gradients] = go_on_to_boundary(dir / "s", {.world = 4, .parts = 2, .more = kLayouts[0]}, 7);
  EXPECT_EQ(loaded.step, 1);
  EXPECT_EQ(loaded.micro_steps_done, 0);
  EXPECT_EQ(loaded.micro_steps_dropped, 1);
  EXPECT_EQ(loaded.data->consumed, 25) << "5 samples of each of two ranks";
}

TEST(SavedGradientsElsewhere, AnotherLossScaleScalesThem) {
  const test::TempDir dir;
  save_at({.store = dir / "s", .at = 2},
          {.world = 2, .more = cat(R"(, "fp16": {"enabled": true, "initial_scale_power": 3})", kLayouts[0])});
  const auto [loaded, gradients] = go_on_to_boundary(dir / "s", {.world = 2, .more = kLayouts[5]}, 10);
  const Tensors expected = gradients_by_hand({{0, 2}, {1, 2}, {10, 2}, {11, 2}});
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(gradients[i].allclose(expected[i] / kParts, 1e-2, 1e-2)) << i;
}

// The second backward after a load is that of one step with the first: buckets that were cut anew between them would lose its sums.
TEST(SavedGradientsElsewhere, BucketsAreTunedBetweenStepsOnly) {
  const test::TempDir dir;
  const Mark mark{.store = dir / "store", .at = 2 * kParts};
  const std::string stage = R"(, "zero_optimization": {"stage": 1, "overlap_comm": true})";
  const Tensors whole = run({.how = {.more = stage}, .num_micro_steps = 5 * kParts, .save = mark});
  const How tuned{.more = cat(stage, R"(, "weft": {"bucket": "auto"})")};
  expect_equal(run({.how = tuned, .num_micro_steps = 5 * kParts, .load = mark}), whole, "tuned");
}

TEST(SavedGradientsElsewhere, BetweenBackwardAndStepASaveIsRefused) {
  const test::TempDir dir;
  Model model;
  Engine engine(model.tensors(), settings(1, 2), world(fresh_run(), 0, 1));
  engine.backward(model.loss(0));
  expect_refused([&] { engine.save_checkpoint(dir / "s"); }, "between backward() and step()");
  engine.step();
  EXPECT_EQ(engine.save_checkpoint(dir / "s").step, 0);
}

}  // namespace
}  // namespace weft
