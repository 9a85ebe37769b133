// What cannot be trained, what is called in an order that cannot be meant, and what changes or fails behind the engine's back.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/comm/peer_lost.h"
#include "weft/engine/engine_test_impl.h"

namespace weft {
namespace {

class EngineAlone : public testing::Test {
 protected:
  void step(int64_t sample) {
    engine_.backward(model_.loss(sample));
    engine_.step();
  }

  Model model_;
  Engine engine_{model_.tensors(), settings(1, 1), world(fresh_run(), 0, 1)};
};

TEST_F(EngineAlone, BackwardTwice) {
  engine_.backward(model_.loss(0));
  expect_refused([&] { engine_.backward(model_.loss(1)); }, "backward() twice without step()");
  EXPECT_TRUE(engine_.step().updated) << "and the engine goes on";
}

TEST_F(EngineAlone, StepWithoutBackward) {
  expect_refused([&] { engine_.step(); }, "step() without backward()");
  step(0);
  expect_refused([&] { engine_.step(); }, "step() without backward()");
}

TEST_F(EngineAlone, ALossThatIsNone) {
  expect_refused([&] { engine_.backward({}); }, "undefined loss");
  expect_refused([&] { engine_.backward(model_.loss(0).detach()); }, "does not depend on any parameter");
  expect_refused([&] { engine_.backward(model_.first * 2); }, "960 elements");
  step(0);
}

TEST_F(EngineAlone, OtherMemoryForAParameter) {
  step(0);
  model_.second.set_data(numbers({40, 8}, 3));
  expect_refused([&] { engine_.backward(model_.loss(1)); }, "parameter 'second' was given other memory");
  expect_refused([&] { engine_.step(); }, "cannot go on");
}

TEST_F(EngineAlone, GradientsThatSomebodyDrops) {
  step(0);
  model_.first.mutable_grad().reset();
  model_.bias.mutable_grad() = at::full({40}, 1e6F);
  engine_.zero_grad();
  const at::Tensor before = model_.bias.detach().clone();
  step(1);
  EXPECT_LT((model_.bias.detach() - before).abs().max().item<float>(), 0.1F);
}

TEST(EngineModel, WithNothingToTrain) {
  const at::Tensor frozen = numbers({3}, 1);
  try {
    Engine engine({{{"frozen", frozen}}, {}}, settings(1, 1), world(fresh_run(), 0, 1));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.text().title, "the model has nothing to train");
  }
}

TEST(EngineModel, TiedAndFrozenParameters) {
  const at::Tensor shared = parameter({8, 8}, 1), frozen = numbers({8}, 2);
  Engine engine({{{"a", shared}, {"b", shared}, {"frozen", frozen}}, {}}, settings(1, 1), world(fresh_run(), 0, 1));
  const at::Tensor before = frozen.clone();
  for (int i = 0; i < 3; ++i) {
    engine.backward((at::mm(at::mm(numbers({2, 8}, i), shared), shared.t()) * frozen).pow(2).mean());
    engine.step();
  }
  EXPECT_TRUE(frozen.equal(before));
  EXPECT_EQ(engine.plan().table.num_elements(), 72);
}

TEST_F(EngineAlone, BackwardBehindTheEnginesBack) {
  step(0);
  expect_refused([&] { model_.loss(1).backward(); }, "a gradient came outside of engine.backward()");
  expect_refused([&] { model_.loss(1).backward({}, true, /*create_graph=*/true); }, "torch::autograd::grad()");
  engine_.zero_grad();
  step(2);
}

TEST_F(EngineAlone, ZeroGradForgetsTheStepSoFar) {
  Model other;
  Engine second(other.tensors(), settings(1, 1), world(fresh_run(), 0, 1));
  engine_.backward(model_.loss(7));
  engine_.zero_grad();
  step(0);
  second.backward(other.loss(0));
  second.step();
  EXPECT_TRUE(model_.first.detach().equal(other.first.detach()));
}

// Throws when its gradient is asked for.
struct Thrower : torch::autograd::Function<Thrower> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& input) { return input.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list) {
    throw std::runtime_error("the user's own fault");
  }
};

TEST_F(EngineAlone, AnExceptionInBackwardLeavesItUsable) {
  step(0);
  EXPECT_THROW(engine_.backward(Thrower::apply(model_.loss(1))), std::runtime_error);
  EXPECT_FALSE(model_.second.grad().defined());
  step(1);
}

// Gradients of the second layer are on their way when the first one's fails.
TEST(Engine, AnExceptionWhileGradientsAreOnTheirWayIsTheEnd) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    Model model;
    Engine engine(
        model.tensors(),
        settings(2, 1, R"(, "zero_optimization": {"stage": 0, "overlap_comm": true, "reduce_bucket_size": 64})"),
        world(run, ctx.rank(), 2));
    engine.backward(model.loss(0));
    engine.step();
    const at::Tensor hidden = (at::mm(numbers({5, 24}, 1), model.first) + model.bias).tanh();
    const at::Tensor loss = (at::mm(Thrower::apply(hidden), model.second) * model.seldom).pow(2).mean();
    EXPECT_THROW(engine.backward(loss), std::runtime_error);
    try {
      engine.step();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("while gradients were on their way: the user's own fault"),
                std::string::npos)
          << error.what();
    }
  });
}

class EngineThatLosesARank : public testing::TestWithParam<int> {};

TEST_P(EngineThatLosesARank, NamesIt) {
  const std::string run = fresh_run(), zero = cat(R"(, "zero_optimization": {"stage": )", GetParam(), "}");
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    Model model;
    Engine engine(model.tensors(), settings(2, 1, zero), world(run, ctx.rank(), 2, 1));
    const auto step = [&] {
      engine.backward(model.loss(0));
      engine.step();
    };
    for (int i = 0; i < 3; ++i) step();
    if (ctx.rank() == 1) return;
    try {
      step();
      ADD_FAILURE() << "went on alone";
    } catch (const comm::PeerLost& lost) {
      EXPECT_NE(std::string(lost.what()).find("rank 1"), std::string::npos) << lost.what();
    }
    try {
      step();
      ADD_FAILURE() << "came back";
    } catch (const Error& error) {
      EXPECT_EQ(error.text().title, "this engine cannot go on");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, EngineThatLosesARank, testing::Values(0, 1, 2, 3));

TEST(EngineConfig, OfAnotherNumberOfRanks) {
  test::run_ranks_as_threads(2, [run = fresh_run()](test::RankContext& ctx) {
    Model model;
    const World here = world(run, ctx.rank(), 2);
    const std::string text = refusal([&] { const Engine engine(model.tensors(), settings(3, 2), here); });
    EXPECT_NE(text.find("the config was read for another number of ranks"), std::string::npos) << text;
    EXPECT_NE(text.find("train_batch_size is 30, and 5 x 2 x 2 ranks are 20"), std::string::npos) << text;
  });
}

// Whoever makes a config by hand has not been through the reader.
TEST(EngineConfig, InTwoTypes) {
  Model model;
  auto config = settings(1, 1);
  config.fp16.enabled = config.bf16.enabled = true;
  const std::string text = refusal([&] { const Engine engine(model.tensors(), config, world(fresh_run(), 0, 1)); });
  EXPECT_NE(text.find("the model cannot be in two types"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("fp16" and "bf16" are both enabled)"), std::string::npos) << text;
}

TEST(EngineModel, ThatIsOnTwoDevices) {
  const at::Tensor here = parameter({3}, 1),
                   there = at::empty({3}, at::TensorOptions().device(at::kMeta)).set_requires_grad(true);
  try {
    Engine engine({{{"here", here}, {"there", there}}, {}}, settings(1, 1), world(fresh_run(), 0, 1));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.text().what, "'here' is on cpu, 'there' on meta");
  }
}

TEST(EngineModel, OfAnotherType) {
  const at::Tensor half = numbers({3}, 1).to(at::kHalf).set_requires_grad(true);
  try {
    Engine engine({{{"half", half}}, {}}, settings(1, 1), world(fresh_run(), 0, 1));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.text().title, "parameter 'half' is fp16");
  }
}

// Between any two calls of backward().
TEST(EngineModel, ThatChangesLaterIsRefusedWithTheName) {
  struct Change {
    std::function<void(ModelTensors& model)> make;
    const char* part;
  };
  const at::Tensor other = parameter({40}, 1);
  for (const Change& change : std::vector<Change>{
           {[&](auto& model) { model.parameters.emplace_back("late", other); },
            "parameter 'late' was added after initialize()"},
           {[&](auto& model) { model.parameters[1].second = other; },
            "parameter 'bias' is another tensor than at initialize()"},
           {[](auto& model) { model.parameters.pop_back(); }, "parameter 'seldom' was taken out of the model"}}) {
    Model model;
    ModelTensors now = model.tensors();
    Engine engine(now, settings(1, 2), world(fresh_run(), 0, 1),
                  {.look_again = [&](const ModelTensors& given) { return engine::change_of(now, given); }});
    engine.backward(model.loss(0));
    engine.step();
    change.make(now);
    expect_refused([&] { engine.backward(model.loss(0)); }, change.part);
    expect_refused([&] { engine.step(); }, "cannot go on");
  }
}

// A trial backward before the engine is no part of its first step.
TEST(EngineModel, LosesGradientsThatWereThereBefore) {
  for (const int stage : {0, 1, 2, 3}) {
    std::vector<at::Tensor> got;
    for (const bool tries : {false, true}) {
      Model model;
      if (tries) model.loss(5).backward();
      Engine engine(model.tensors(), settings(1, 1, cat(R"(, "zero_optimization": {"stage": )", stage, "}")),
                    world(fresh_run(), 0, 1));
      engine.backward(model.loss(0));
      engine.step();
      got.push_back(engine.full_param(model.first));
    }
    EXPECT_TRUE(got[0].equal(got[1])) << "stage " << stage;
  }
}

// Of two micro-steps the first was done when somebody tried to begin anew, in vain: the step is what it would have been.
TEST(EngineModel, KeepsItsGradientsWhereASecondStartIsRefused) {
  for (const int stage : {0, 1, 2, 3}) {
    std::vector<at::Tensor> got;
    for (const bool tries : {false, true}) {
      Model model;
      const std::string config = cat(R"(, "zero_optimization": {"stage": )", stage, "}");
      Engine engine(model.tensors(), settings(1, 2, config), world(fresh_run(), 0, 1));
      for (int micro_step = 0; micro_step < 4; ++micro_step) {
        engine.backward(model.loss(micro_step));
        engine.step();
        if (!tries) continue;
        EXPECT_THROW(Engine(model.tensors(), settings(1, 2, config), world(fresh_run(), 0, 1),
                            {.groups = {parameters_like("typo.*", {.lr = 1.0})}}),
                     Error);
      }
      got.push_back(engine.full_param(model.first));
    }
    EXPECT_TRUE(got[0].equal(got[1])) << "stage " << stage;
  }
}

// A rank that left out other steps than the rest, or scaled its losses otherwise, would train another model.
TEST(EngineRanks, ThatScaleOrSkipDifferentlyAreRefused) {
  const std::pair<std::string, std::string> cases[] = {
      {R"("fp16": {"enabled": true, "loss_scale": 64})", "fp16.loss_scale"},
      {R"("fp16": {"enabled": true, "initial_scale_power": 4})", "fp16.initial_scale_power"},
      {R"("fp16": {"enabled": true, "loss_scale_window": 5})", "fp16.loss_scale_window"},
      {R"("fp16": {"enabled": true, "hysteresis": 3})", "fp16.hysteresis"},
      {R"("fp16": {"enabled": true, "consecutive_hysteresis": true})", "fp16.consecutive_hysteresis"},
      {R"("fp16": {"enabled": true, "min_loss_scale": 2})", "fp16.min_loss_scale"},
      {R"("bf16": {"enabled": true, "check_grad_overflow": false})", "bf16.check_grad_overflow"}};
  for (const auto& [mine, name] : cases) {
    const std::string others = cat('"', name.substr(0, 4), R"(": {"enabled": true})");
    test::run_ranks_as_threads(2, [&, run = fresh_run()](test::RankContext& ctx) {
      Model model;
      const auto config = settings(2, 1, cat(", ", ctx.rank() == 1 ? mine : others));
      expect_refused([&] { const Engine engine(model.tensors(), config, world(run, ctx.rank(), 2)); },
                     cat("setting '", name, "' is"));
    });
  }
}

}  // namespace
}  // namespace weft
