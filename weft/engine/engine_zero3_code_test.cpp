// Stage 3 below code that is not a plain chain of operators: functions with a backward of their own, recomputation, scripts, hooks.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <array>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/zero3_nets_test_impl.h"
#include "weft/plan/residency.h"

namespace weft {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Saves the parameter itself, and reads it in backward by an operator of its own.
struct ScaledMm : torch::autograd::Function<ScaledMm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight) {
    ctx->save_for_backward({x, weight});
    return at::mm(x, weight) * 2;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {at::mm(grads[0], saved[1].t()) * 2, at::mm(saved[0].t(), grads[0]) * 2};
  }
};

Net custom_function() {
  return {{parameter({12, 16}, 1), parameter({16, 16}, 2), parameter({16, 4}, 3)}, [](const Net& net, int64_t sample) {
            const auto& p = net.parameters;
            at::Tensor x = ScaledMm::apply(input(sample, {5, 12}).set_requires_grad(true), p[0]).tanh();
            x = ScaledMm::apply(x, p[1]).tanh();
            return ScaledMm::apply(x, p[2]).pow(2).mean();
          }};
}

// Keeps the input of a block alone, and runs the block again in backward.
using Block = std::function<at::Tensor(const at::Tensor& x)>;
struct Recomputed : torch::autograd::Function<Recomputed> {
  // `anchor` requires a gradient, so that there is a backward whatever the input is.
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& /*anchor*/,
                            const Block* block) {
    ctx->save_for_backward({x});
    ctx->saved_data["block"] = reinterpret_cast<int64_t>(block);
    return (*block)(x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto* const block = reinterpret_cast<const Block*>(ctx->saved_data["block"].toInt());
    const at::AutoGradMode with_grad(true);
    const at::Tensor x = ctx->get_saved_variables()[0].detach().set_requires_grad(true);
    torch::autograd::backward({(*block)(x)}, {grads[0]});
    return {x.grad(), at::Tensor(), at::Tensor()};
  }
};

Net recomputed() {
  Net net{{parameter({12, 12}, 1), parameter({12}, 2), parameter({12, 12}, 3), parameter({12, 12}, 4)}, {}};
  const auto blocks = std::make_shared<std::vector<Block>>();
  for (const size_t first : {0, 2}) {
    const at::Tensor a = net.parameters[first], b = net.parameters[first + 1];
    blocks->emplace_back([a, b](const at::Tensor& x) {
      return (b.dim() == 1 ? at::mm(x, a) + b : at::mm(at::mm(x, a).tanh(), b)).tanh();
    });
  }
  net.loss = [blocks](const Net&, int64_t sample) {
    at::Tensor x = input(sample, {5, 12});
    for (const Block& block : *blocks) x = Recomputed::apply(x, at::ones({1}).set_requires_grad(true), &block);
    return x.pow(2).mean();
  };
  return net;
}

Net scripted() {
  const auto script = std::make_shared<torch::jit::Module>("Scripted");
  Net net{{parameter({12, 16}, 1), parameter({16}, 2), parameter({16, 16}, 3)}, {}};
  for (size_t i = 0; i < net.parameters.size(); ++i) script->register_parameter(cat("p", i), net.parameters[i], false);
  script->define(R"(
    def forward(self, x):
        x = torch.tanh(torch.mm(x, self.p0) + self.p1)
        for i in range(2):
            x = torch.tanh(torch.mm(x, self.p2))
        return torch.mean(torch.pow(x, 2))
  )");
  net.loss = [script](const Net&, int64_t sample) { return script->forward({input(sample, {5, 12})}).toTensor(); };
  return net;
}

// A hook of backward that reads a parameter which backward has no use for.
Net hooked() {
  return {{parameter({12, 16}, 1), parameter({16, 16}, 2), parameter({40}, 3)}, [](const Net& net, int64_t sample) {
            const auto p = net.parameters;
            const at::Tensor x = at::mm(input(sample, {5, 12}), p[0]).tanh();
            const at::Tensor y = at::mm(x, p[1]);
            y.register_hook(
                [p](const at::Tensor& grad) { return grad * (1 + p[2].detach().mean() + p[0].detach().mean()); });
            return y.pow(2).mean() + p[2].sum();
          }};
}

constexpr NetKind kCodeKinds[] = {
    {"custom_function", custom_function}, {"recomputed", recomputed}, {"scripted", scripted}, {"hooked", hooked}};

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

// --- Against torch alone ---------------------------------------------------------------------------------------------

// One process, torch's own optimizer, all samples of a step one after the other.
template <typename Optimizer, typename Options>
NetRun train_plainly(const std::function<Net()>& make, const Options& options, int size, int num_steps) {
  const Net net = make();
  std::vector<at::Tensor> trained;
  for (const at::Tensor& one : net.parameters) {
    if (one.requires_grad()) trained.push_back(one);
  }
  Optimizer optimizer(trained, options);
  NetRun out;
  for (int64_t step = 0; step < num_steps; ++step) {
    optimizer.zero_grad();
    for (int64_t rank = 0; rank < size; ++rank) {
      const at::Tensor loss = net.loss(net, step * size + rank);
      if (rank == 0) out.losses.push_back(loss.template item<float>());
      (loss / static_cast<double>(size)).backward();
    }
    // Where a step gives no gradient, weft's is zero.
    for (at::Tensor& one : trained) {
      if (!one.grad().defined()) one.mutable_grad() = at::zeros_like(one);
    }
    optimizer.step();
  }
  for (const at::Tensor& one : net.parameters) out.parameters.push_back(one.detach().clone());
  return out;
}

constexpr NetKind kAllKinds[] = {{"layers", layers},
                                 {"tied_head", tied_head},
                                 {"convolutions", convolutions},
                                 {"lstm", lstm},
                                 {"recurrent", recurrent},
                                 {"conditional", conditional},
                                 {"frozen_part", frozen_part},
                                 {"aliases", aliases},
                                 {"experts", experts},
                                 {"custom_function", custom_function},
                                 {"recomputed", recomputed},
                                 {"scripted", scripted},
                                 {"hooked", hooked}};

class EngineZero3AgainstTorch : public testing::TestWithParam<NetKind> {};
INSTANTIATE_TEST_SUITE_P(All, EngineZero3AgainstTorch, testing::ValuesIn(kAllKinds),
                         [](const auto& one) { return std::string(one.param.name); });

constexpr const char* kUnclipped = R"(, "gradient_clipping": 0)";

// Halves are exact, two ranks' gradients are added in their order, and weft's SGD rounds as torch's does.
TEST_P(EngineZero3AgainstTorch, HasItsBitsWithSgd) {
  const auto options = torch::optim::SGDOptions(0.001).weight_decay(0.01);
  const NetRun expected = train_plainly<torch::optim::SGD>(GetParam().make, options, 2, 6);
  for (const char* zero : {kTight, kRoomy})
    expect_same(train_net(GetParam().make, {.more = cat(zero, kUnclipped), .num_steps = 6, .with_sgd = true}), expected,
                zero);
}

// weft's AdamW rounds elsewhere than torch's, and thirds are not exact: six updates of 0.01 stay within a hundredth of one.
TEST_P(EngineZero3AgainstTorch, IsNearWithAdam) {
  const auto options = torch::optim::AdamWOptions(0.01).weight_decay(0);
  const NetRun expected = train_plainly<torch::optim::AdamW>(GetParam().make, options, 3, 6);
  const NetRun found = train_net(GetParam().make, {.size = 3, .more = cat(kTight, kUnclipped), .num_steps = 6});
  for (size_t i = 0; i < expected.parameters.size(); ++i) {
    // A bias before a norm has a gradient of rounding errors alone, and Adam makes whole steps of them.
    if (std::string_view(GetParam().name) == "convolutions" && i == 1) continue;
    EXPECT_LT((found.parameters[i] - expected.parameters[i]).abs().max().item<float>(), 1e-4F) << "parameter " << i;
  }
}

// --- What is moved ---------------------------------------------------------------------------------------------------

struct Room {
  int64_t max_live, prefetch;
};

// The bytes of a step are those that the plan's own simulation of its touches moves, and those of the reduction.
TEST(EngineZero3Bytes, AreThoseOfThePlan) {
  for (const Room& room : {Room{0, 0}, {700, 0}, {1000, 300}, {100'000, 400}}) {
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
            const at::Tensor x = input(sample, {5, 12}).set_requires_grad(true);
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
