// Stage 3 below code that is not a plain chain of operators, what it moves, and memory that is not there.
#include <gtest/gtest.h>

#include <array>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/zero3_code_test_impl.h"
#include "weft/engine/zero3_nets_test_impl.h"
#include "weft/plan/residency.h"

namespace weft {
namespace {

class EngineZero3Code : public testing::TestWithParam<NetKind> {};
INSTANTIATE_TEST_SUITE_P(All, EngineZero3Code, testing::ValuesIn(kCodeKinds),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(EngineZero3Code, ChangesNoBit) {
  for (const bool over_network : {false, true}) {
    const auto train = [&](const char* zero) {
      return train_net(GetParam().make, {.over_network = over_network, .more = zero, .num_steps = 6});
    };
    const NetRun expected = train(kStage2);
    for (const char* zero : {kTight, kRoomy})
      expect_same(train(zero), expected, cat(zero, over_network ? " network" : ""));
    EXPECT_NE(expected.losses.front(), expected.losses.back());
  }
}

// --- What is moved ---------------------------------------------------------------------------------------------------

struct GatherLimits {
  int64_t max_live, prefetch;
};

// The bytes of a step are those that the plan's own simulation of its touches moves, and those of the reduction.
TEST(EngineZero3Bytes, AreThoseOfThePlan) {
  for (const GatherLimits& room : {GatherLimits{0, 0}, {700, 0}, {1000, 300}, {100'000, 400}}) {
    const std::string run = fresh_run();
    test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
      const Net net = layers();
      const std::string zero =
          cat(R"(, "zero_optimization": {"stage": 3, "reduce_bucket_size": 1, "stage3_param_persistence_threshold": 0,
                   "stage3_max_live_parameters": )",
              room.max_live, R"(, "stage3_prefetch_bucket_size": )", room.prefetch,
              R"(}, "weft": {"common_parameters": false})");
      Engine engine(net.tensors(), settings(2, 1, zero), world(run, ctx.rank(), 2));
      std::vector<int64_t> sent;
      for (int64_t i = 0; i < 6; ++i) {
        engine.backward(net.loss(net, i * 2 + ctx.rank()));
        engine.step();
        sent.push_back(engine.totals().sent_bytes);
      }
      const plan::Layout& layout = engine.plan().layout;
      std::vector<int64_t> sizes;
      int64_t reduced = 0;
      for (const plan::Bucket& bucket : layout.buckets) {
        sizes.push_back(bucket.num_elements);
        reduced += bucket.num_elements * 4 / 2;
      }
      // Forward uses all four; backward has no use for the first two, and finds the last one there.
      std::vector<plan::Touch> trace;
      for (const int parameter : {0, 1, 2, 3, 2}) trace.push_back({.unit = layout.home(parameter).bucket});
      const auto residency = plan::make_residency(
          trace, sizes, {.max_live = room.max_live, .prefetch = room.prefetch, .max_reuse_distance = 1'000'000'000});
      EXPECT_EQ(sent[5] - sent[4], reduced + residency.gathered_elements * 4 / 2)
          << room.max_live << " live, " << room.prefetch << " ahead";
      EXPECT_EQ(sent[4] - sent[3], sent[5] - sent[4]);
    });
  }
}

// --- The first backward -----------------------------------------------------------------------------------------------

// Two layers; in their backward a hook looks whether the gradient of the second, which has come, is still whole.
Net watched(const std::shared_ptr<std::vector<bool>>& whole, bool with_own_function) {
  return {{parameter({12, 16}, 1), parameter({16, 4}, 2)}, [=](const Net& net, int64_t sample) {
            const at::Tensor second = net.parameters[1];
            const at::Tensor x = input(net, sample, {5, 12}).set_requires_grad(true);
            const at::Tensor hidden =
                with_own_function ? ScaledMm::apply(x, net.parameters[0]) : at::mm(x, net.parameters[0]);
            hidden.register_hook([whole, second](const at::Tensor& grad) {
              whole->push_back(second.grad().defined());
              return grad;
            });
            return at::mm(hidden.tanh(), second).pow(2).mean();
          }};
}

// A function of the user's own may bring gradients again: only then the first backward keeps them, to see how often.
TEST(EngineZero3Use, TheFirstBackwardLetsGoOfGradientsAsOthersDo) {
  for (const bool with_own_function : {false, true}) {
    for (const bool over_network : {false, true}) {
      const std::string run = fresh_run();
      test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
        const auto whole = std::make_shared<std::vector<bool>>();
        const Net net = watched(whole, with_own_function);
        World here = world(run, ctx.rank(), 2);
        if (over_network) here.group = std::make_shared<AsOverANetwork>(here.group);
        Engine engine(net.tensors(), settings(2, 1, kTight), here);
        for (int64_t i = 0; i < 3; ++i) {
          engine.backward(net.loss(net, i * 2 + ctx.rank()));
          engine.step();
        }
        EXPECT_EQ(*whole, (std::vector<bool>{with_own_function, false, false}));
      });
    }
  }
}

// --- Experts over a network ------------------------------------------------------------------------------------------

TEST(EngineZero3Gloo, RanksMayChooseFromWhatComesTogether) {
  const auto make = [] {
    Net net = experts();
    net.together = {{0, 1, 2}};
    return net;
  };
  const NetRun expected = train_net(make, {.more = kStage2, .num_steps = 6});
  for (const char* zero : {kTight, kRoomy})
    expect_same(train_net(make, {.over_gloo = true, .more = zero, .num_steps = 6}), expected, cat("gloo", zero));
}

TEST(EngineZero3Gloo, ChangesNoBit) {
  const NetRun expected = train_net(tied_head, {.size = 3, .more = kStage2, .num_steps = 6});
  expect_same(train_net(tied_head, {.size = 3, .over_gloo = true, .more = kRoomy, .num_steps = 6}), expected, "gloo");
}

// --- Memory that is not there ----------------------------------------------------------------------------------------

std::string what_torch_says(const std::function<void()>& what) {
  try {
    what();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing";
}

TEST(EngineZero3Memory, WithoutAnOperatorIsRefusedWithAReason) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const Net net = layers();
    const Engine engine(net.tensors(), settings(2, 1, kTight), world(run, ctx.rank(), 2));
    const std::string text = what_torch_says([&] { net.parameters[2].const_data_ptr<float>(); });
    EXPECT_NE(text.find("'p2' this rank has a slice"), std::string::npos) << text;
    EXPECT_NE(text.find("GatheredParameters"), std::string::npos) << text;
  });
}

TEST(EngineZero3Memory, AfterTheEngineIsRefusedWithAReason) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const Net net = layers();
    {
      Engine engine(net.tensors(), settings(2, 1, kTight), world(run, ctx.rank(), 2));
      engine.backward(net.loss(net, ctx.rank()));
      engine.step();
    }
    for (const auto& touch :
         std::array<std::function<void()>, 3>{[&] { net.loss(net, 0); }, [&] { net.parameters[1].detach().add_(1); },
                                              [&] { net.parameters[3].clone(); }}) {
      const std::string text = what_torch_says(touch);
      EXPECT_NE(text.find("the engine that could gather them is gone"), std::string::npos) << text;
    }
  });
}

TEST(EngineZero3Memory, AfterTheEngineIsThereIfItWasWhole) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const Net net = layers();
    std::vector<at::Tensor> before;
    {
      Engine engine(net.tensors(), settings(2, 1, kTight), world(run, ctx.rank(), 2));
      engine.backward(net.loss(net, ctx.rank()));
      engine.step();
      for (const at::Tensor& one : net.parameters) before.push_back(one.detach().clone());
      engine.wait_for_parameters();
    }
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(net.parameters[i].detach().equal(before[i])) << i;
    // And another engine can have it.
    Engine again(net.tensors(), settings(2, 1, kRoomy), world(run + "-again", ctx.rank(), 2));
    again.backward(net.loss(net, ctx.rank()));
    again.step();
  });
}

}  // namespace
}  // namespace weft
