// Parameters with numbers of their own, parameters that are frozen and unfrozen on the way, and parameters seen whole.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full_like.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"

namespace weft {
namespace {

constexpr const char* kStagesToAccess[] = {
    R"(, "weft": {"shard_update": false})", R"(, "zero_optimization": {"stage": 1, "reduce_bucket_size": 200})",
    R"(, "zero_optimization": {"stage": 2}, "weft": {"common_parameters": false})",
    R"(, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true})"};

void expect_misuse(const std::function<void()>& what, const std::string& part) {
  try {
    what();
    ADD_FAILURE() << "allowed: " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

// --- Groups ------------------------------------------------------------------------------------------------------------

TEST(EngineGroups, HaveRatesAndDecaysOfTheirOwn) {
  for (const char* more : kStagesToAccess) {
    on_ranks(2, [&](const World& here) {
      Model model;
      auto config = settings(2, 1, more);
      const EngineOptions options{.groups = {parameters_like("sec*", {.lr = 0}), vectors({.weight_decay = 0})}};
      Engine engine(model.tensors(), config, here, options);
      EXPECT_EQ(engine.get_lrs(), (std::vector<double>{0, 0.01, 0.01}));
      const at::Tensor second = model.second.detach().clone(), first = model.first.detach().clone();
      for (int64_t i = 0; i < 3; ++i) step_on(engine, model, i);
      EXPECT_TRUE(model.second.detach().equal(second)) << "a rate of 0: " << more;
      EXPECT_FALSE(model.first.detach().equal(first));
      engine.set_lr(0.5);
      EXPECT_EQ(engine.get_lrs(), (std::vector<double>{0.5, 0.5, 0.5}));
      step_on(engine, model, 3);
      EXPECT_FALSE(model.second.detach().equal(second));
    });
  }
}

TEST(EngineGroups, ChangeNoBitOfAStage) {
  std::vector<at::Tensor> expected;
  for (const char* more : {kStagesToAccess[0], kStagesToAccess[1], kStagesToAccess[2]}) {
    std::vector<std::vector<at::Tensor>> got(3);
    on_ranks(3, [&](const World& here) {
      Model model;
      Engine engine(model.tensors(), settings(3, 2, more), here,
                    {.groups = {vectors({.weight_decay = 0}), parameters_like("second", {.lr = 0.2})}});
      for (int64_t i = 0; i < 8; ++i) step_on(engine, model, 3 * i + here.rank);
      for (const auto& [name, tensor] : model.tensors().parameters)
        got[static_cast<size_t>(here.rank)].push_back(tensor.detach().clone());
    });
    if (expected.empty()) expected = got[0];
    for (const auto& one : got) {
      for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(expected[i])) << more << i;
    }
  }
}

TEST(EngineGroups, WithNumbersThatCannotBeAreRefused) {
  Model model;
  const auto start = [&](GroupNumbers numbers) {
    return Engine(model.tensors(), settings(1, 1), world(fresh_run(), 0, 1), {.groups = {vectors(numbers)}});
  };
  expect_misuse([&] { start({.lr = -1}); },
                "the group of parameters of fewer than two dimensions has a lr that cannot be");
  expect_misuse([&] { start({.weight_decay = NAN}); }, "weight_decay is nan, expected a finite number, 0 or more");
  Engine engine = start({.lr = 0});
  for (const double lr : {-0.5, static_cast<double>(INFINITY)})
    expect_misuse([&] { engine.set_lr(lr); }, "set_lr() has a lr that cannot be");
  EXPECT_EQ(engine.get_lr(), 0.01) << "as before";
}

TEST(EngineGroups, WithNothingInThemAreRefused) {
  Model model;
  expect_misuse(
      [&] {
        Engine(model.tensors(), settings(1, 1), world(fresh_run(), 0, 1), {.groups = {parameters_like("*.bias", {})}});
      },
      "the group of parameters like '*.bias' has nothing in it");
  model.bias.set_requires_grad(false);
  const Engine later(model.tensors(), settings(1, 1), world(fresh_run(), 0, 1),
                     {.groups = {parameters_like("bias", {.lr = 0.5})}});
  EXPECT_EQ(later.get_lrs(), (std::vector<double>{0.5, 0.01})) << "for when it is unfrozen";
}

// A group of which some ranks own no element, and the config's own, of which nobody owns any.
TEST(EngineGroups, MayHaveNothingOnARank) {
  for (const char* type : {"AdamW", "Lamb"}) {
    std::vector<at::Tensor> expected;
    for (const int size : {1, 3}) {
      on_ranks(size, [&](const World& here) {
        Model model;
        auto config = settings(size, 1, size == 1 ? kStagesToAccess[0] : kStagesToAccess[1]);
        config.optimizer.type = type;
        Engine engine(model.tensors(), config, here,
                      {.groups = {parameters_like("seldom", {.lr = 0.2}), parameters_like("*", {.weight_decay = 0})}});
        for (int64_t i = 0; i < 3; ++i) step_on(engine, model, i);
        EXPECT_EQ(engine.get_lrs(), (std::vector<double>{0.2, 0.01, 0.01}));
        if (here.rank != 0) return;
        if (expected.empty()) expected = {model.first.detach().clone(), model.seldom.detach().clone()};
        EXPECT_TRUE(at::allclose(model.first.detach(), expected[0], 1e-5, 1e-6)) << type;
        EXPECT_TRUE(at::allclose(model.seldom.detach(), expected[1], 1e-5, 1e-6)) << type;
        EXPECT_FALSE(model.seldom.detach().equal(numbers({8}, 4)));
      });
    }
  }
}

TEST(EngineGroups, ThatDifferBetweenRanksAreRefused) {
  on_ranks(2, [&](const World& here) {
    Model model;
    const GroupNumbers numbers{.lr = here.rank == 0 ? 0.1 : 0.2};
    expect_misuse([&] { Engine(model.tensors(), settings(2, 1), here, {.groups = {vectors(numbers)}}); }, "lr 0.2");
  });
}

// --- Frozen, and not ---------------------------------------------------------------------------------------------------

TEST(EngineFreezing, ParametersMayBeFrozenAndUnfrozenBetweenSteps) {
  for (const char* more : kStagesToAccess) {
    on_ranks(2, [&](const World& here) {
      Model model;
      model.second.set_requires_grad(false);
      Engine engine(model.tensors(), settings(2, 1, more), here);
      const auto now = [](const at::Tensor& tensor) { return tensor.detach().clone(); };
      const at::Tensor at_start = now(model.second);
      for (int64_t i = 0; i < 3; ++i) step_on(engine, model, 2 * i + here.rank);
      EXPECT_TRUE(now(model.second).equal(at_start)) << more;
      model.second.set_requires_grad(true);
      model.bias.set_requires_grad(false);
      const at::Tensor bias = now(model.bias);
      for (int64_t i = 3; i < 6; ++i) step_on(engine, model, 2 * i + here.rank);
      EXPECT_FALSE(now(model.second).equal(at_start)) << "trained from now on: " << more;
      EXPECT_TRUE(now(model.bias).equal(bias)) << "and this one no longer";
      model.bias.set_requires_grad(true);
      step_on(engine, model, 12 + here.rank);
      EXPECT_FALSE(now(model.bias).equal(bias));
      for (const auto& [name, tensor] : model.tensors().parameters) {
        const at::Tensor other = now(tensor);
        here.group->broadcast(other, 0);
        EXPECT_TRUE(other.equal(now(tensor))) << name << more;
      }
    });
  }
}

TEST(EngineFreezing, NotInTheMiddleOfAStep) {
  Model model;
  Engine engine(model.tensors(), settings(1, 2), world(fresh_run(), 0, 1));
  step_on(engine, model, 0);
  model.bias.set_requires_grad(false);
  expect_misuse([&] { step_on(engine, model, 1); }, "in the middle of a step");
}

// --- Seen whole --------------------------------------------------------------------------------------------------------

TEST(EngineAccess, EverythingIsSeenWholeAndCanBeSet) {
  for (const char* more : kStagesToAccess) {
    on_ranks(3, [&](const World& here) {
      Model model;
      Engine engine(model.tensors(), settings(3, 1, more), here);
      for (int64_t i = 0; i < 2; ++i) step_on(engine, model, i);
      engine.backward(model.loss(2));
      const at::Tensor grad = engine.full_grad(model.first);
      EXPECT_EQ(grad.sizes(), model.first.sizes());
      EXPECT_GT(grad.abs().sum().item<float>(), 0);
      engine.set_full_grad(model.second, at::full_like(engine.full_grad(model.second), 0));
      engine.step();
      const at::Tensor moments = engine.full_state(model.first, "exp_avg");
      EXPECT_TRUE(at::allclose(engine.full_param(model.first), model.first.detach().to(at::kFloat), 1e-2, 1e-2))
          << more;
      engine.set_full_state(model.first, "exp_avg", moments * 2);
      EXPECT_TRUE(engine.full_state(model.first, "exp_avg").equal(moments * 2)) << more;
      engine.set_full_param(model.bias, at::full_like(model.bias.detach(), 0.5));
      EXPECT_EQ(model.bias.detach().to(at::kFloat).sum().item<float>(), 20);
      EXPECT_EQ(engine.full_param(model.bias).sum().item<float>(), 20);
      engine.backward(model.loss(3));
      EXPECT_TRUE(engine.step().updated);
      EXPECT_NE(engine.full_param(model.bias).sum().item<float>(), 20) << "and training goes on from there";
    });
  }
}

TEST(EngineAccess, GradientsAreTheMeanOverRanks) {
  on_ranks(2, [&](const World& here) {
    Model model, alone;
    Engine engine(model.tensors(), settings(2, 1, kStagesToAccess[1]), here);
    engine.backward(model.loss(here.rank));
    ((alone.loss(0) + alone.loss(1)) / 2).backward();
    EXPECT_TRUE(at::allclose(engine.full_grad(model.second), alone.second.grad(), 1e-5, 1e-7));
    engine.step();
  });
}

TEST(EngineAccess, WhatIsNotThereIsSaid) {
  Model model;
  Engine engine(model.tensors(), settings(1, 1), world(fresh_run(), 0, 1));
  expect_misuse([&] { engine.full_grad(model.first); }, "no gradient");
  expect_misuse([&] { engine.full_param(model.first.detach()); }, "no parameter of the model");
  step_on(engine, model, 0);
  expect_misuse([&] { engine.full_state(model.first, "momentum"); }, "ask for 'exp_avg', 'exp_avg_sq'");
  expect_misuse([&] { engine.set_full_param(model.bias, model.first.detach()); },
                "a value of [24, 40] for 'bias', which is [40]");
  expect_misuse([&] { engine.set_full_param(model.first, model.first.detach().t()); },
                "a value of [40, 24] for 'first', which is [24, 40]");
  engine.set_full_param(model.first, model.first.detach().reshape({-1}) * 2);
}

TEST(EngineAccess, OfFrozenParametersIsTheirValue) {
  for (const char* more :
       {kStagesToAccess[0], kStagesToAccess[1], kStagesToAccess[3], R"(, "zero_optimization": {"stage": 3})",
        R"(, "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
                               "weft": {"common_parameters": false})"}) {
    on_ranks(2, [&](const World& here) {
      Model model;
      model.second.set_requires_grad(false);
      Engine engine(model.tensors(), settings(2, 1, more), here);
      step_on(engine, model, here.rank);
      EXPECT_TRUE(at::allclose(engine.full_param(model.second), numbers({40, 8}, 3), 1e-2, 1e-2)) << more;
      engine.backward(model.loss(1));
      expect_misuse([&] { engine.full_grad(model.second); }, "parameter 'second' is frozen: it has no gradient");
      engine.step();
      expect_misuse([&] { engine.full_state(model.second, "exp_avg"); },
                    "'second' is frozen: it has no optimizer state");
      expect_misuse([&] { engine.set_full_state(model.second, "exp_avg", model.second.detach()); }, "full_param()");
      engine.set_full_param(model.second, at::full_like(numbers({40, 8}, 3), 0.5));
      EXPECT_EQ(engine.full_param(model.second).sum().item<float>(), 160) << more;
      step_on(engine, model, 2);
      EXPECT_EQ(engine.full_param(model.second).sum().item<float>(), 160) << more;
    });
  }
}

TEST(EngineAccess, RanksThatAskForDifferentThingsAreTold) {
  for (const char* more : {kStagesToAccess[1], kStagesToAccess[2], kStagesToAccess[3]}) {
    on_ranks(3, [&](const World& here) {
      Model model;
      Engine engine(model.tensors(), settings(3, 1, more), here);
      step_on(engine, model, here.rank);
      engine.backward(model.loss(here.rank));
      const at::Tensor& mine = here.rank == 1 ? model.bias : model.first;
      expect_misuse([&] { engine.full_grad(mine); },
                    "rank 0 calls full_grad() of 'first', rank 1 full_grad() of 'bias'");
      expect_misuse([&] { engine.set_full_grad(mine, at::full_like(mine.detach(), 0)); }, "set_full_grad() of 'bias'");
      const char* kind = here.rank == 2 ? "exp_avg_sq" : "exp_avg";
      expect_misuse([&] { engine.full_state(model.first, kind); }, "rank 2 full_state() of 'first', exp_avg_sq");
      expect_misuse([&] { engine.set_full_param(mine, mine.detach()); },
                    "set_full_param() of 'first', a value of [24, 40], rank 1");
      const at::Tensor turned = here.rank == 1 ? model.first.detach().t() : model.first.detach();
      expect_misuse([&] { engine.set_full_param(model.first, turned); },
                    "rank 1 set_full_param() of 'first', a value of [40, 24]");
      const at::Tensor same = engine.full_grad(model.first);
      EXPECT_EQ(same.sizes(), model.first.sizes());
      EXPECT_TRUE(engine.step().updated) << "and the engine goes on";
    });
  }
}

TEST(EngineAccess, OfADeadEngineIsRefused) {
  Model model;
  Engine engine(model.tensors(), settings(1, 1), world(fresh_run(), 0, 1));
  step_on(engine, model, 0);
  model.second.set_data(numbers({40, 8}, 3));
  expect_misuse([&] { engine.backward(model.loss(1)); }, "was given other memory");
  const at::Tensor value = model.first.detach().clone();
  for (const std::function<void()>& call : std::vector<std::function<void()>>{
           [&] { engine.full_param(model.first); }, [&] { engine.full_grad(model.first); },
           [&] { engine.full_state(model.first, "exp_avg"); }, [&] { engine.set_full_param(model.first, value); },
           [&] { engine.set_full_grad(model.first, value); },
           [&] { engine.set_full_state(model.first, "exp_avg", value); }})
    expect_misuse(call, "this engine cannot go on");
}

}  // namespace
}  // namespace weft
