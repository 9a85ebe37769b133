// Parameters seen whole by code that does not know the engine.
#include "weft/engine/full_tensors.h"

#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"

namespace weft {
namespace {

void expect_nobody(const at::Tensor& tensor) {
  try {
    full_param(tensor);
    ADD_FAILURE() << "somebody was found";
  } catch (const Error& error) {
    EXPECT_EQ(error.text().title, "no engine trains this tensor");
    EXPECT_NE(error.text().fix.find("named_parameters()"), std::string::npos);
  }
}

// Ranks are threads here: each finds its own engine among those of all.
TEST(FullTensors, AreTheEnginesOwn) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(3, [&](test::RankContext& ctx) {
    Model model;
    Engine engine(model.tensors(), settings(3, 1, R"(, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true})"),
                  world(run, ctx.rank(), 3));
    engine.backward(model.loss(ctx.rank()));
    EXPECT_TRUE(full_grad(model.second).equal(engine.full_grad(model.second)));
    set_full_grad(model.bias, at::full_like(full_grad(model.bias), 0));
    EXPECT_EQ(engine.full_grad(model.bias).abs().sum().item<float>(), 0);
    engine.step();
    EXPECT_TRUE(full_state(model.first, "exp_avg").equal(engine.full_state(model.first, "exp_avg")));
    set_full_state(model.first, "exp_avg", at::full_like(model.first.detach(), 2));
    EXPECT_EQ(engine.full_state(model.first, "exp_avg").sum().item<float>(), 2 * 960);
    set_full_param(model.bias, at::full_like(model.bias.detach(), 0.5));
    EXPECT_EQ(full_param(model.bias).sum().item<float>(), 20);
    EXPECT_TRUE(full_param(model.first).equal(engine.full_param(model.first)));
  });
}

TEST(FullTensors, OfNoEngineAreRefused) {
  Model model;
  expect_nobody({});
  expect_nobody(model.first);
  {
    const Engine engine(model.tensors(), settings(1, 1), world(fresh_run(), 0, 1));
    EXPECT_TRUE(full_param(model.first).equal(model.first.detach()));
    expect_nobody(model.first.detach());
  }
  expect_nobody(model.first);
}

TEST(FullTensors, FollowAnEngineThatIsMovedOrReplaced) {
  const at::Tensor weight = parameter({8}, 1);
  const auto start = [&] { return Engine({{{"weight", weight}}, {}}, settings(1, 1), world(fresh_run(), 0, 1)); };
  Engine engine = start();
  Engine moved = std::move(engine);
  EXPECT_TRUE(full_param(weight).equal(weight.detach()));
  moved = start();
  moved.backward(weight.pow(2).sum());
  EXPECT_TRUE(full_grad(weight).equal(2 * weight.detach())) << "of the one that lives, not the one before";
  moved.step();
}

TEST(FullTensors, OfATiedWeightAreThereUntilItsEngineIsGone) {
  const at::Tensor shared = parameter({8, 8}, 1);
  {
    const Engine engine({{{"a", shared}, {"b", shared}}, {}}, settings(1, 1), world(fresh_run(), 0, 1));
    EXPECT_TRUE(full_param(shared).equal(shared.detach()));
  }
  expect_nobody(shared);
}

TEST(FullTensors, AreFoundWhileOtherEnginesComeAndGo) {
  Model model;
  const Engine engine(model.tensors(), settings(1, 1), world(fresh_run(), 0, 1));
  const at::Tensor expected = model.first.detach().clone();
  std::thread others([] {
    for (int i = 0; i < 20; ++i) {
      Model other;
      const Engine short_lived(other.tensors(), settings(1, 1), world(fresh_run(), 0, 1));
    }
  });
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(full_param(model.first).equal(expected));
  others.join();
}

}  // namespace
}  // namespace weft
