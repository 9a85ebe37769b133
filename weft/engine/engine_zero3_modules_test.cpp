// Stage 3 and models of torch::nn: parameters that change behind the engine's back, aliases from before it, and code of TorchScript
// whose operators nobody sees.
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/gathered_parameters.h"
#include "weft/engine/zero3_modules_test_impl.h"

namespace weft {
namespace {

std::string said_by(const std::function<void()>& what) {
  testing::internal::CaptureStderr();
  what();
  return testing::internal::GetCapturedStderr();
}

// --- What initialize() is given --------------------------------------------------------------------------------------

TEST(EngineZero3Modules, AreTrainedAsTheyStand) {
  const NetRun expected = train_net(conv_module, {.more = kStage2, .num_steps = 6});
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const auto model = std::make_shared<ConvModel>();
    const Net net = net_of(model);
    auto engine = initialize(model, settings(2, 1, kTight), world(run, ctx.rank(), 2));
    for (int64_t i = 0; i < 6; ++i) {
      engine.backward(model->loss(net, i * 2 + ctx.rank()));
      engine.step();
    }
    for (size_t i = 0; i < net.parameters.size(); ++i)
      EXPECT_TRUE(net.parameters[i].detach().equal(expected.parameters[i])) << i;
  });
}

struct Growing : nn::Module {
  Growing() {
    first = register_module("first", nn::Linear(4, 4));
    second = register_module("second", nn::Linear(4, 4));
  }
  at::Tensor loss() { return second(first(numbers({3, 4}, 1))).pow(2).mean(); }

  nn::Linear first{nullptr}, second{nullptr};
};

TEST(EngineZero3Modules, ThatChangeAreRefusedAtTheNextBackward) {
  struct Change {
    std::function<void(Growing& model)> make;
    const char* part;
  };
  for (const Change& change :
       std::vector<Change>{{[](Growing& model) { model.second->register_parameter("scale", parameter({4}, 1)); },
                            "parameter 'second.scale' was added after initialize()"},
                           {[](Growing& model) { model.second = model.replace_module("second", nn::Linear(4, 4)); },
                            "parameter 'second.weight' is another tensor than at initialize()"},
                           {[](Growing& model) { model.unregister_module("first"); },
                            "parameter 'first.bias' was taken out of the model"}}) {
    const std::string run = fresh_run();
    test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
      const auto model = std::make_shared<Growing>();
      auto engine = initialize(model, settings(2, 1, kTight), world(run, ctx.rank(), 2));
      for (int i = 0; i < 3; ++i) {
        engine.backward(model->loss());
        engine.step();
      }
      change.make(*model);
      expect_refused([&] { engine.backward(model->loss()); }, change.part);
    });
  }
}

// --- Aliases from before ---------------------------------------------------------------------------------------------

constexpr const char* kAliased = "had a view or detach()ed tensor before initialize()";

TEST(EngineZero3Aliases, FromBeforeAreWarnedOf) {
  const Net net = layers();
  const at::Tensor alias = net.parameters[2].detach();
  const std::string text = said_by([&] {
    Engine engine(net.tensors(), settings(1, 1, kTight), world(fresh_run(), 0, 1));
    engine.backward(net.loss(net, 0));
    engine.step();
    EXPECT_FALSE(alias.equal(net.parameters[2].detach())) << "it has the values of before";
  });
  EXPECT_NE(text.find(cat("parameter 'p2' ", kAliased)), std::string::npos) << text;
}

TEST(EngineZero3Aliases, NobodyIsWarnedOfWhatIsUsual) {
  for (const auto& make : {gpt, flattened_lstm, conv_module, tied_module}) {
    const Net net = make();
    const std::string text = said_by([&] { Engine(net.tensors(), settings(1, 1, kTight), world(fresh_run(), 0, 1)); });
    EXPECT_EQ(text.find(kAliased), std::string::npos) << text;
  }
}

TEST(EngineZero3Aliases, AmongParametersAreRefused) {
  const at::Tensor flat = numbers({20}, 1);
  const auto part = [&](int64_t first, int64_t count) {
    at::Tensor one = at::empty({0});
    one.set_(flat.storage(), first, {count}, {1});
    return one.set_requires_grad(true);
  };
  const auto engine_of = [](const at::Tensor& a, const at::Tensor& b) {
    Engine({{{"a", a}, {"b", b}}, {}}, settings(1, 1, kTight), world(fresh_run(), 0, 1));
  };
  expect_refused([&] { engine_of(part(0, 12), part(10, 8)); }, "'a' and 'b' are different tensors over one memory");
  engine_of(part(0, 10), part(10, 8));
}

// --- TorchScript -----------------------------------------------------------------------------------------------------

// Frozen after initialize(): its constants share the parameters' memory, so it is up to date, and its operators are seen.
TEST(EngineZero3Script, FrozenAfterwardsIsUpToDate) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    torch::jit::Module script("Frozen");
    const Net net{{parameter({12, 16}, 1), parameter({16}, 2)}, [&](const Net& one, int64_t sample) {
                    return script.forward({input(one, sample, {5, 12})}).toTensor().pow(2).mean();
                  }};
    for (size_t i = 0; i < 2; ++i) script.register_parameter(cat("p", i), net.parameters[i], false);
    script.define("def forward(self, x):\n    return torch.tanh(torch.mm(x, self.p0) + self.p1)\n");
    Engine engine(net.tensors(), settings(2, 1, kTight), world(run, ctx.rank(), 2));
    const auto step = [&](int64_t number) {
      engine.backward(net.loss(net, number * 2 + ctx.rank()));
      engine.step();
    };
    step(0);
    script.eval();
    torch::jit::Module frozen = torch::jit::freeze(script);
    for (int64_t i = 1; i < 4; ++i) {
      const at::Tensor x = input(net, i, {5, 12});
      EXPECT_TRUE(frozen.forward({x}).toTensor().equal(script.forward({x}).toTensor().detach())) << "step " << i;
      step(i);
    }
  });
}

// As a fused kernel does: an operator of the interpreter alone, which reads memory without telling anybody.
void register_hidden() {
  static const torch::jit::RegisterOperators once({torch::jit::Operator(
      "aten::weft_test_hidden_sum(Tensor x) -> Tensor",
      [](torch::jit::Stack& stack) {
        const at::Tensor x = torch::jit::pop(stack).toTensor();
        const float* const values = x.const_data_ptr<float>();
        double sum = 0;
        for (int64_t i = 0; i < x.numel(); ++i) sum += values[i];
        torch::jit::push(stack, at::scalar_tensor(sum));
      },
      c10::AliasAnalysisKind::FROM_SCHEMA)});
}

TEST(EngineZero3Script, WhoseOperatorsAreNotSeenIsRefusedWithAReason) {
  register_hidden();
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    torch::jit::Module script("Fused");
    const Net net{{parameter({12, 16}, 1)}, {}};
    script.register_parameter("p0", net.parameters[0], false);
    script.define("def forward(self):\n    return torch.weft_test_hidden_sum(self.p0)\n");
    const float expected = script.forward({}).toTensor().item<float>();
    Engine engine(net.tensors(), settings(2, 1, kTight), world(run, ctx.rank(), 2));
    try {
      script.forward({});
      ADD_FAILURE() << "it read something";
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()).find("of 'p0' this rank has a slice"), std::string::npos) << error.what();
    }
    const GatheredParameters guard({net.parameters[0]});
    EXPECT_EQ(script.forward({}).toTensor().item<float>(), expected) << "and this is what to do";
  });
}

}  // namespace
}  // namespace weft
