// Optimizers of the user's own behind the engine: torch's, and one made by hand.
#include "weft/engine/user_optimizer.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/torch_optimizer.h"

namespace weft {
namespace {

constexpr int kUserSteps = 5;

OptimizerFactory adam() {
  return torch_optimizer<torch::optim::Adam>(torch::optim::AdamOptions(0.01).weight_decay(0.1));
}
OptimizerFactory sgd() { return torch_optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9)); }

config::Resolved own(int world, int64_t accumulation, const std::string& more = "") {
  config::Resolved out = settings(world, accumulation, cat(R"(, "zero_allow_untested_optimizer": true)", more));
  out.optimizer = {};
  return out;
}

constexpr const char* kUserStages[] = {R"(, "zero_optimization": {"stage": 0})",
                                       R"(, "zero_optimization": {"stage": 1})",
                                       R"(, "zero_optimization": {"stage": 2, "reduce_bucket_size": 300})",
                                       R"(, "zero_optimization": {"stage": 2}, "weft": {"common_parameters": false})",
                                       R"(, "zero_optimization": {"stage": 3})",
                                       R"(, "zero_optimization": {"stage": 3, "reduce_bucket_size": 300,
                                       "stage3_param_persistence_threshold": 0, "stage3_max_live_parameters": 0},
                                       "weft": {"common_parameters": false})"};

// What moves by its gradient, and remembers what it was given.
struct Plain : UserOptimizer {
  explicit Plain(const std::vector<UserGroup>& given) : groups(given) {}
  void step() override {
    for (const UserGroup& group : groups) {
      for (const at::Tensor& tensor : group.tensors) tensor.sub_(tensor.grad(), rate);
    }
  }
  double lr(size_t) const override { return rate; }
  void set_lr(size_t, double lr) override { rate = lr; }

  std::vector<UserGroup> groups;
  double rate = 0.1;
};

TEST(UserOptimizer, OfTorchHasTheBitsOfOneRankInEveryStage) {
  for (const OptimizerFactory& make : {adam(), sgd()}) {
    for (const char* clip : {R"(, "gradient_clipping": 0)", R"(, "gradient_clipping": 0.05)"}) {
      // Halving is exact, so the order of halving and adding is all the same.
      const auto alone = train_together(1, own(1, 2, cat(clip, kUserStages[0])), kUserSteps, {.optimizer = make});
      for (const char* stage : kUserStages) {
        const auto both = train_together(2, own(2, 1, cat(clip, stage)), kUserSteps, {.optimizer = make});
        for (size_t rank = 0; rank < 2; ++rank) expect_same_bits(both[rank], alone[0], cat(clip, stage));
      }
    }
  }
}

TEST(UserOptimizer, OfTorchHasTheBitsOfAPlainLoop) {
  Model model, alone;
  Engine engine(model.tensors(), own(1, 1, R"(, "gradient_clipping": 0)"), world(fresh_run(), 0, 1),
                {.optimizer = adam()});
  std::vector<at::Tensor> parameters;
  for (const auto& [name, tensor] : alone.tensors().parameters) parameters.push_back(tensor);
  torch::optim::Adam optimizer(parameters, torch::optim::AdamOptions(0.01).weight_decay(0.1));
  for (int64_t i = 0; i < kUserSteps; ++i) {
    engine.backward(model.loss(i));
    engine.step();
    optimizer.zero_grad();
    alone.loss(i).backward();
    optimizer.step();
  }
  EXPECT_TRUE(model.first.detach().equal(alone.first.detach()));
  EXPECT_TRUE(model.seldom.detach().equal(alone.seldom.detach()));
}

TEST(UserOptimizer, TakesNarrowModelsWithTheLossScaleAndClippingDone) {
  for (const char* narrow : {R"(, "bf16": {"enabled": true}, "gradient_clipping": 0.05)",
                             R"(, "fp16": {"enabled": true, "initial_scale_power": 10}, "gradient_clipping": 0.05)"}) {
    const auto expected = train_together(3, own(3, 2, cat(narrow, kUserStages[0])), kUserSteps, {.optimizer = adam()});
    for (const char* stage : kUserStages) {
      const auto got = train_together(3, own(3, 2, cat(narrow, stage)), kUserSteps, {.optimizer = adam()});
      for (size_t rank = 0; rank < 3; ++rank) expect_same_bits(got[rank], expected[0], cat(narrow, stage));
    }
  }
}

TEST(UserOptimizer, SeesWholeParametersInStageZeroAndSlicesElsewhere) {
  for (const char* stage : {kUserStages[0], kUserStages[1]}) {
    const std::string run = fresh_run();
    test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
      Model model;
      std::vector<UserGroup> given;
      const auto make = [&](const std::vector<UserGroup>& groups) {
        given = groups;
        return std::make_unique<Plain>(groups);
      };
      Engine engine(model.tensors(), own(2, 1, stage), world(run, ctx.rank(), 2),
                    {.groups = {vectors({.lr = 0.5})}, .optimizer = make});
      ASSERT_EQ(given.size(), 2);
      EXPECT_EQ(given[0].numbers.lr, 0.5);
      int64_t count = 0;
      for (const UserGroup& group : given) {
        for (const at::Tensor& tensor : group.tensors) {
          count += tensor.numel();
          EXPECT_EQ(tensor.dim() == 2, stage == kUserStages[0] && &group == &given[1]);
        }
      }
      if (stage == kUserStages[0]) {
        EXPECT_EQ(count, 24 * 40 + 40 + 40 * 8 + 8);
      } else {
        EXPECT_LT(count, 800) << "half of it, and padding";
      }
      engine.backward(model.loss(0));
      EXPECT_TRUE(engine.step().updated);
    });
  }
}

TEST(UserOptimizer, HasGroupsWithNumbersOfTheirOwn) {
  Model model;
  Engine engine(model.tensors(), own(1, 1), world(fresh_run(), 0, 1),
                {.groups = {parameters_like("second", {.lr = 0, .weight_decay = 0})}, .optimizer = adam()});
  EXPECT_EQ(engine.get_lrs(), (std::vector<double>{0, 0.01}));
  const at::Tensor before = model.second.detach().clone();
  engine.backward(model.loss(0));
  engine.step();
  EXPECT_TRUE(model.second.detach().equal(before)) << "a rate of 0";
  engine.set_lr(0.5);
  EXPECT_EQ(engine.get_lrs(), (std::vector<double>{0.5, 0.5}));
}

TEST(UserOptimizer, FollowsTheScheduleAsWeftsOwnDo) {
  Model model, other;
  auto theirs = own(1, 1), ours = settings(1, 1);
  theirs.scheduler.type = ours.scheduler.type = "WarmupLR";
  Engine engine(model.tensors(), theirs, world(fresh_run(), 0, 1), {.optimizer = adam()});
  Engine expected(other.tensors(), ours, world(fresh_run(), 0, 1));
  for (int64_t i = 0; i < 4; ++i) {
    engine.backward(model.loss(i));
    engine.step();
    expected.backward(other.loss(i));
    expected.step();
    EXPECT_EQ(engine.get_lr(), expected.get_lr()) << i;
  }
  EXPECT_GT(engine.get_lr(), 0);
}

TEST(UserOptimizer, IsSavedAndGoesOnWithTheSameBits) {
  for (const char* stage : kUserStages) {
    const std::string run = fresh_run();
    test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
      Model model, other;
      const auto config = own(2, 1, stage);
      Engine first(model.tensors(), config, world(run, ctx.rank(), 2), {.optimizer = adam()});
      const auto step = [&](Engine& engine, const Model& of, int64_t sample) {
        engine.backward(of.loss(2 * sample + ctx.rank()));
        engine.step();
      };
      for (int64_t i = 0; i < 3; ++i) step(first, model, i);
      const auto state = first.optimizer_state();
      first.wait_for_parameters();
      {
        const at::NoGradGuard no_grad;
        for (size_t i = 0; i < 4; ++i) other.tensors().parameters[i].second.copy_(model.tensors().parameters[i].second);
      }
      Engine second(other.tensors(), config, world(cat(run, "b"), ctx.rank(), 2), {.optimizer = adam()});
      second.set_optimizer_state(state);
      for (int64_t i = 3; i < 6; ++i) {
        step(first, model, i);
        step(second, other, i);
      }
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(model.tensors().parameters[i].second.detach().equal(other.tensors().parameters[i].second.detach()))
            << stage << i;
      }
    });
  }
}

TEST(UserOptimizer, ThatCannotBeSavedSaysSo) {
  Model model;
  const auto make = [](const std::vector<UserGroup>& groups) { return std::make_unique<Plain>(groups); };
  Engine engine(model.tensors(), own(1, 1), world(fresh_run(), 0, 1), {.optimizer = make});
  expect_refused([&] { engine.optimizer_state(); }, "this optimizer cannot be saved");
  expect_refused([&] { engine.full_state(model.first, "exp_avg"); }, "ask that optimizer");
  engine.backward(model.loss(0));
  EXPECT_TRUE(engine.step().updated) << "and training goes on";
}

TEST(UserOptimizer, OfAnotherModelIsNotLoaded) {
  Model model;
  const at::Tensor small = parameter({3}, 1);
  Engine engine(model.tensors(), own(1, 1), world(fresh_run(), 0, 1), {.optimizer = adam()});
  Engine other({{{"small", small}}, {}}, own(1, 1), world(fresh_run(), 0, 1), {.optimizer = adam()});
  other.set_optimizer_state(engine.optimizer_state());
  other.backward(small.sum());
  expect_refused([&] { other.step(); }, "that of other slices");
  expect_refused([&] { engine.set_optimizer_state({{"step", at::zeros({}, at::kLong)}}); }, "rank_0_of_1");
}

TEST(UserOptimizer, IsRefusedWhereItCannotWork) {
  const auto start = [&](const config::Resolved& config, const OptimizerFactory& make = adam()) {
    const Model model;
    Engine(model.tensors(), config, world(fresh_run(), 0, 1), {.optimizer = make});
  };
  auto config = own(1, 1, kUserStages[2]);
  config.zero_allow_untested_optimizer = false;
  expect_refused([&] { start(config); }, R"(set "zero_allow_untested_optimizer": true)");
  expect_refused([&] { start(settings(1, 1)); }, "there are two optimizers");
  expect_refused([&] { start(own(1, 1, R"(, "weft": {"bucket": "auto"})")); }, "tuned buckets");
  expect_refused([&] { start(own(1, 1), [](const std::vector<UserGroup>&) { return nullptr; }); }, "gave none");
  config = own(1, 1);
  config.zero_allow_untested_optimizer = false;
  start(config);  // in stage 0 it sees all
}

TEST(UserOptimizer, DoesNotFollowParametersThatAreFrozenLater) {
  Model model;
  Engine engine(model.tensors(), own(1, 1), world(fresh_run(), 0, 1), {.optimizer = adam()});
  engine.backward(model.loss(0));
  engine.step();
  model.bias.set_requires_grad(false);
  expect_refused([&] { engine.backward(model.loss(1)); }, "cannot move to another layout");
}

TEST(UserOptimizer, OnOneRankOnlyIsRefused) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    Model model;
    auto config = own(2, 1, kUserStages[1]);
    if (ctx.rank() == 1) config.optimizer = settings(2, 1).optimizer;
    expect_refused(
        [&] {
          Engine(model.tensors(), config, world(run, ctx.rank(), 2),
                 {.optimizer = ctx.rank() == 0 ? adam() : OptimizerFactory()});
        },
        "optimizer");
  });
}

}  // namespace
}  // namespace weft
