// Stage 3: parameters that are whole only while operators need them. Whatever a model does, it changes no bit.
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/zero3_test_impl.h"

namespace weft {
namespace {

at::Tensor input(int64_t sample, std::vector<int64_t> shape) { return numbers(std::move(shape), 100 + sample); }
at::Tensor tokens(int64_t sample, int64_t count, int64_t vocabulary) {
  return at::arange(count, at::kLong).mul(7).add(sample * 3).remainder(vocabulary);
}

// --- Models ----------------------------------------------------------------------------------------------------------

Net layers() {
  return {{parameter({16, 24}, 1), parameter({24}, 2), parameter({24, 24}, 3), parameter({24, 8}, 4)},
          [](const Net& net, int64_t sample) {
            const auto& p = net.parameters;
            const at::Tensor hidden = (at::mm(input(sample, {5, 16}), p[0]) + p[1]).tanh();
            return at::mm(at::mm(hidden, p[2]).tanh(), p[3]).pow(2).mean();
          }};
}

// The embedding's own weight is the head, and it is used outside of any module.
Net tied_head() {
  return {{parameter({32, 12}, 1), parameter({12, 12}, 2), parameter({12}, 3), parameter({12}, 4)},
          [](const Net& net, int64_t sample) {
            const auto& p = net.parameters;
            at::Tensor x = at::embedding(p[0], tokens(sample, 9, 32));
            x = at::gelu(at::linear(at::layer_norm(x, {12}, p[2], p[3]), p[1]));
            return at::linear(x, p[0]).pow(2).mean();
          }};
}

Net convolutions() {
  return {
      {parameter({6, 3, 3, 3}, 1), parameter({6}, 2), parameter({6}, 3), parameter({6}, 4), parameter({4, 6 * 36}, 5)},
      [](const Net& net, int64_t sample) {
        const auto& p = net.parameters;
        at::Tensor x = at::conv2d(input(sample, {2, 3, 8, 8}), p[0], p[1]);
        x = at::relu(at::batch_norm(x, p[2], p[3], {}, {}, true, 0.1, 1e-5, false));
        return at::linear(x.reshape({2, -1}), p[4]).pow(2).mean();
      }};
}

Net lstm() {
  return {{parameter({4 * 8, 5}, 1), parameter({4 * 8, 8}, 2), parameter({4 * 8}, 3), parameter({4 * 8}, 4),
           parameter({3, 8}, 5)},
          [](const Net& net, int64_t sample) {
            const auto& p = net.parameters;
            const at::Tensor zeros = at::zeros({1, 2, 8});
            const auto [out, h, c] = at::lstm(input(sample, {6, 2, 5}), {zeros, zeros}, {p[0], p[1], p[2], p[3]}, true,
                                              1, 0.0, true, false, false);
            return at::linear(out, p[4]).pow(2).mean();
          }};
}

// One layer several times, and one that never.
Net recurrent() {
  return {{parameter({10, 10}, 1), parameter({10}, 2), parameter({40}, 3)}, [](const Net& net, int64_t sample) {
            at::Tensor x = input(sample, {4, 10});
            for (int i = 0; i < 4; ++i) x = (at::mm(x, net.parameters[0]) + net.parameters[1]).tanh();
            return x.pow(2).mean();
          }};
}

// Another way through the model for every third sample.
Net conditional() {
  return {{parameter({12, 12}, 1), parameter({12, 12}, 2), parameter({12, 12}, 3), parameter({12}, 4)},
          [](const Net& net, int64_t sample) {
            const auto& p = net.parameters;
            at::Tensor x = at::mm(input(sample, {4, 12}), p[0]).tanh();
            x = at::mm(x, sample / 2 % 3 == 0 ? p[1] : p[2]);
            if (sample / 2 % 2 == 1) x = x * p[3];
            return x.pow(2).mean();
          }};
}

Net frozen_part() {
  Net net = layers();
  net.parameters[2].set_requires_grad(false);
  return net;
}

// Views, aliases and detached copies of parameters, made once and kept.
Net aliases() {
  return {{parameter({8, 12}, 1), parameter({30}, 2)}, [](const Net& net, int64_t sample) {
            const at::Tensor transposed = net.parameters[0].t();
            const at::Tensor rows = net.parameters[1].view({5, 6}).narrow(0, 1, 2).reshape({12});
            const at::Tensor shadow = net.parameters[1].detach();
            at::Tensor x = at::mm(input(sample, {4, 12}) * rows, transposed);
            return (x * shadow.sum()).pow(2).mean();
          }};
}

// Every rank has its own expert for each sample.
Net experts() {
  Net net = {
      {parameter({12, 12}, 1), parameter({12, 12}, 2), parameter({12, 12}, 3), parameter({12, 4}, 4)},
      [](const Net& one, int64_t sample) {
        const auto& p = one.parameters;
        return at::mm(at::mm(input(sample, {4, 12}), p[static_cast<size_t>(sample % 3)]).tanh(), p[3]).pow(2).mean();
      }};
  return net;
}

struct Kind {
  const char* name;
  Net (*make)();
};

class EngineZero3 : public testing::TestWithParam<Kind> {};
class EngineZero3OverANetwork : public testing::TestWithParam<Kind> {};

TEST_P(EngineZero3, ChangesNoBit) {
  for (const int size : {2, 3}) {
    for (const char* bf16 : {"", R"(, "bf16": {"enabled": true})"}) {
      // Models of plain tensors have their inputs in fp32.
      if (*bf16 != '\0' && std::string_view(GetParam().name) != "tied_head") continue;
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

constexpr Kind kKinds[] = {
    {"layers", layers},       {"tied_head", tied_head},     {"convolutions", convolutions}, {"lstm", lstm},
    {"recurrent", recurrent}, {"conditional", conditional}, {"frozen_part", frozen_part},   {"aliases", aliases}};

constexpr auto kNameOf = [](const auto& one) { return std::string(one.param.name); };
INSTANTIATE_TEST_SUITE_P(All, EngineZero3, testing::ValuesIn(kKinds), kNameOf);
INSTANTIATE_TEST_SUITE_P(OneWayEach, EngineZero3, testing::Values(Kind{"experts", experts}), kNameOf);
INSTANTIATE_TEST_SUITE_P(All, EngineZero3OverANetwork, testing::ValuesIn(kKinds), kNameOf);

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
