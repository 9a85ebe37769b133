// Stage 3: parameters that are whole only while operators need them. Whatever a model does, it changes no bit.
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/zero3_nets_test_impl.h"
#include "weft/engine/zero3_test_impl.h"

namespace weft {
namespace {

class EngineZero3 : public testing::TestWithParam<NetKind> {};
class EngineZero3OverANetwork : public testing::TestWithParam<NetKind> {};

TEST_P(EngineZero3, ChangesNoBit) {
  for (const int size : {2, 3}) {
    for (const char* bf16 : {"", R"(, "bf16": {"enabled": true})"}) {
      const auto train = [&](const char* zero) {
        return train_net(GetParam().make, {.size = size, .more = cat(zero, bf16), .num_steps = 8});
      };
      const NetRun expected = train(kStage2);
      for (const char* zero : {R"(, "zero_optimization": {"stage": 3})", kTight, kRoomy})
        expect_same(train(zero), expected, cat(size, " ranks", zero, bf16));
    }
  }
}

TEST_P(EngineZero3OverANetwork, ChangesNoBit) {
  const auto train = [&](const char* zero, int64_t accumulation) {
    return train_net(GetParam().make,
                     {.over_network = true, .more = zero, .num_steps = 6, .accumulation = accumulation});
  };
  for (const int64_t accumulation : {1, 2}) {
    const NetRun expected = train(kStage2, accumulation);
    for (const char* zero : {kTight, kRoomy}) expect_same(train(zero, accumulation), expected, zero);
  }
}

constexpr auto kNameOf = [](const auto& one) { return std::string(one.param.name); };
INSTANTIATE_TEST_SUITE_P(All, EngineZero3, testing::ValuesIn(kNetKinds), kNameOf);
INSTANTIATE_TEST_SUITE_P(OneWayEach, EngineZero3, testing::Values(NetKind{"experts", experts}), kNameOf);
INSTANTIATE_TEST_SUITE_P(All, EngineZero3OverANetwork, testing::ValuesIn(kNetKinds), kNameOf);

// --- What else may happen --------------------------------------------------------------------------------------------

TEST(EngineZero3Use, EvaluationBetweenStepsChangesNothing) {
  const auto train = [](const char* zero, bool over_network) {
    return train_net(
        layers,
        {.over_network = over_network, .more = zero, .num_steps = 9, .before_step = [](const Net& net, int64_t step) {
           if (step % 3 != 2) return;
           const at::NoGradGuard no_grad;
           EXPECT_TRUE(net.loss(net, 1000).isfinite().item<bool>());
         }});
  };
  for (const bool over_network : {false, true}) {
    const NetRun expected = train(kStage2, over_network);
    for (const char* zero : {kTight, kRoomy}) expect_same(train(zero, over_network), expected, zero);
  }
}

TEST(EngineZero3Use, WhatTheUserWritesIsKept) {
  const auto train = [](const char* zero, bool over_network) {
    return train_net(
        layers,
        {.over_network = over_network, .more = zero, .num_steps = 6, .before_step = [](const Net& net, int64_t step) {
           if (step % 2 == 0) return;
           const at::NoGradGuard no_grad;
           net.parameters[0].mul_(0.5);
           net.parameters[3].narrow(0, 2, 3).fill_(0.25);
           at::_foreach_mul_({net.parameters[1], net.parameters[2]}, 0.75);
         }});
  };
  const std::string apart = R"(, "weft": {"common_parameters": false})";
  for (const bool over_network : {false, true}) {
    const NetRun expected = train(cat(kStage2, apart).c_str(), over_network);
    for (const char* zero : {kTight, kRoomy}) expect_same(train(zero, over_network), expected, zero);
  }
}

TEST(EngineZero3Use, NoMoreIsWholeThanTheLimitAndTheUnitAtHand) {
  const NetRun tight = train_net(layers, {.more = kTight, .num_steps = 6});
  EXPECT_LE(tight.totals.peak_gathered_elements, 640) << "the largest two, with padding: a layer and its bias";
  EXPECT_GT(tight.totals.peak_gathered_elements, 0);
  const NetRun roomy = train_net(layers, {.more = kRoomy, .num_steps = 6});
  EXPECT_LE(roomy.totals.peak_gathered_elements, 1200);
}

TEST(EngineZero3Use, OverANetworkRanksThatPartAreNamed) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    World here = world(run, ctx.rank(), 2, 5);
    here.group = std::make_shared<AsOverANetwork>(here.group);
    const Net net = experts();
    Engine engine(net.tensors(), settings(2, 1, kTight), here);
    try {
      for (int64_t i = 0; i < 4; ++i) {
        engine.backward(net.loss(net, i * 2 + ctx.rank()));
        engine.step();
      }
      ADD_FAILURE() << "nobody noticed";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("touch different parameters"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("'p"), std::string::npos) << error.what();
    }
  });
}

TEST(EngineZero3Use, OverANetworkRanksMayChooseFromWhatComesTogether) {
  const auto make = [] {
    Net net = experts();
    net.together = {{0, 1, 2}};
    return net;
  };
  const NetRun expected = train_net(make, {.over_network = true, .more = kStage2, .num_steps = 6});
  for (const char* zero : {kTight, kRoomy})
    expect_same(train_net(make, {.over_network = true, .more = zero, .num_steps = 6}), expected, zero);
}

TEST(EngineZero3Use, AParameterCanBeFrozenAndUnfrozen) {
  const auto train = [](const char* zero) {
    return train_net(layers, {.more = zero, .num_steps = 9, .before_step = [](const Net& net, int64_t step) {
                                if (step % 3 == 0) net.parameters[2].set_requires_grad(step % 2 == 0);
                              }});
  };
  const NetRun expected = train(kStage2);
  for (const char* zero : {R"(, "zero_optimization": {"stage": 3})", kTight, kRoomy})
    expect_same(train(zero), expected, zero);
}

// An operator that stands before a parameter whose owner is gone reads zeros, and the next call says who is missing.
TEST(EngineZero3Use, APeerLostIsNamed) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    World here = world(run, ctx.rank(), 2, 2);
    here.group = std::make_shared<AsOverANetwork>(here.group);
    const Net net = layers();
    Engine engine(net.tensors(), settings(2, 1, kTight), here);
    const auto step = [&](int64_t i) {
      engine.backward(net.loss(net, i));
      engine.step();
    };
    step(0);
    if (ctx.rank() == 1) return;
    try {
      for (int64_t i = 1; i < 4; ++i) step(i);
      ADD_FAILURE() << "nobody was missed";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
    }
  });
}

TEST(EngineZero3Use, WholeParametersCanBeReadAndSet) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const Net net = layers();
    Engine engine(net.tensors(), settings(2, 1, kTight), world(run, ctx.rank(), 2));
    engine.set_full_param(net.parameters[0], at::ones({16, 24}));
    engine.backward(net.loss(net, ctx.rank()));
    EXPECT_EQ(engine.full_grad(net.parameters[0]).sizes(), net.parameters[0].sizes());
    engine.step();
    const at::Tensor now = engine.full_param(net.parameters[0]);
    EXPECT_LT((now - 1).abs().max().item<float>(), 0.05) << "one step from ones";
    EXPECT_GT((now - 1).abs().max().item<float>(), 0);
    EXPECT_EQ(engine.full_state(net.parameters[0], "exp_avg").sizes(), net.parameters[0].sizes());
  });
}

}  // namespace
}  // namespace weft
