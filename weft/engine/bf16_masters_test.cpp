// "bf16_master_weights_and_grads": the bf16 parameters are all there is, with moments in fp32 or in bf16.
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/plan/ledger.h"

namespace weft {
namespace {

constexpr int kMasterSteps = 6;
constexpr double kLr = 0.01;

constexpr const char* kZero[] = {R"(, "zero_optimization": {"stage": 0}, "weft": {"shard_update": false})",
                                 R"(, "zero_optimization": {"stage": 1, "reduce_bucket_size": 300})",
                                 R"(, "zero_optimization": {"stage": 1}, "weft": {"common_parameters": false})",
                                 R"(, "zero_optimization": {"stage": 2, "overlap_comm": true})"};

// Stage 0 is the engine's own: DeepSpeed, and so the reader of configs, asks for a stage above.
config::Resolved narrow(int world, int64_t accumulation, bool states, const std::string& more) {
  config::Resolved out = settings(world, accumulation, cat(R"(, "bf16": {"enabled": true})", more));
  out.bf16.bf16_master_weights_and_grads = true;
  out.bf16.bf16_optimizer_states = states;
  return out;
}

at::Tensor flat(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  int64_t count = 0;
  for (const at::Tensor& tensor : tensors) {
    parts.push_back(tensor.detach().reshape({-1}).to(at::kFloat));
    count += parts.back().numel();
  }
  parts.push_back(at::zeros({(64 - count % 64) % 64}));  // torch rounds whole vectors as we do
  return at::cat(parts);
}

// What a user would write: autograd in bf16, AdamW in fp32, everything rounded to where it is kept.
std::vector<at::Tensor> plain_loop(bool states) {
  Model model;
  std::vector<at::Tensor> parameters;
  for (at::Tensor* tensor : {&model.first, &model.bias, &model.second, &model.seldom}) {
    *tensor = tensor->detach().to(at::kBFloat16).set_requires_grad(true);
    parameters.push_back(*tensor);
  }
  const at::ScalarType kept = states ? at::kBFloat16 : at::kFloat;
  at::Tensor momentum = at::zeros_like(flat(parameters)), variance = at::zeros_like(momentum);
  for (int64_t step = 1; step <= kMasterSteps; ++step) {
    std::vector<at::Tensor> grads;
    model.loss(step).backward();
    for (at::Tensor& tensor : parameters) {
      grads.push_back(tensor.grad());
      tensor.mutable_grad().reset();
    }
    const at::Tensor wide = flat(parameters);
    at::_fused_adamw_({wide}, {flat(grads)}, {momentum}, {variance}, {}, {at::scalar_tensor(static_cast<double>(step))},
                      kLr, 0.9, 0.999, 0, 1e-8, false, false);
    momentum = momentum.to(kept).to(at::kFloat);
    variance = variance.to(kept).to(at::kFloat);
    int64_t begin = 0;
    for (const at::Tensor& tensor : parameters) {
      tensor.detach().copy_(wide.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
      begin += tensor.numel();
    }
  }
  return parameters;
}

// The mean of equal gradients is exact, so ranks with the same samples are one rank.
TEST(Bf16Masters, GiveTheBitsOfAPlainLoopInEveryStage) {
  for (const bool states : {false, true}) {
    const auto expected = plain_loop(states);
    for (const int size : {1, 2}) {
      for (const char* zero : kZero) {
        const std::string run = fresh_run();
        test::run_ranks_as_threads(size, [&](test::RankContext& ctx) {
          Model model;
          auto config = narrow(size, 1, states, cat(R"(, "gradient_clipping": 0)", zero));
          Engine engine(model.tensors(), config, world(run, ctx.rank(), size));
          for (int64_t step = 1; step <= kMasterSteps; ++step) {
            engine.backward(model.loss(step));
            engine.step();
          }
          const at::Tensor got[] = {model.first, model.bias, model.second, model.seldom};
          for (size_t i = 0; i < 4; ++i) {
            EXPECT_EQ(got[i].scalar_type(), at::kBFloat16);
            EXPECT_TRUE(got[i].detach().equal(expected[i].detach())) << size << zero << states << " " << i;
          }
        });
      }
    }
  }
}

TEST(Bf16Masters, HaveTheSameBitsInEveryStage) {
  for (const char* type : {"AdamW", "Lion", "SGD", "Adagrad"}) {
    for (const bool states : {false, true}) {
      std::vector<Trained> first;
      for (const char* zero : kZero) {
        auto config = narrow(3, 2, states, cat(R"(, "gradient_clipping": 0.05)", zero));
        config.optimizer.type = type;
        const auto got = train_together(3, config, kMasterSteps);
        if (first.empty()) first = got;
        for (size_t rank = 0; rank < 3; ++rank) expect_same_bits(got[rank], first[0], cat(type, zero));
        EXPECT_EQ(got[0].losses, first[0].losses) << type << zero;
      }
    }
  }
}

TEST(Bf16Masters, TakeTheMemoryThePlanSays) {
  for (const bool states : {false, true}) {
    for (const int size : {1, 2, 4}) {
      for (const char* zero : kZero) {
        const std::string run = fresh_run();
        test::run_ranks_as_threads(size, [&](test::RankContext& ctx) {
          // Slices without padding, so that both count the same.
          const at::Tensor weight = parameter({32, 64}, 1);
          const auto config = narrow(size, 1, states, zero);
          Engine engine({{{"weight", weight}}, {}}, config, world(run, ctx.rank(), size));
          engine.backward((weight * weight).sum());
          engine.step();
          const auto ledger = make_ledger(engine.plan(), static_cast<int>(config.zero_optimization.stage));
          const EngineStateBytes bytes = engine.state_bytes();
          EXPECT_EQ(bytes.params, ledger.bytes(plan::MemoryKind::kParameters)) << zero;
          EXPECT_EQ(bytes.grads, ledger.bytes(plan::MemoryKind::kGradients)) << zero;
          EXPECT_EQ(bytes.optimizer, ledger.bytes(plan::MemoryKind::kOptimizer)) << zero << states;
        });
      }
    }
  }
}

TEST(Bf16Masters, AreSeenWholeAndSaved) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    Model model, other;
    const auto config = narrow(2, 1, true, kZero[3]);
    Engine engine(model.tensors(), config, world(run, ctx.rank(), 2));
    const auto step = [](Engine& of, const Model& its, int64_t sample) {
      of.backward(its.loss(sample));
      of.step();
    };
    for (int64_t i = 0; i < 3; ++i) step(engine, model, i);
    const at::Tensor whole = engine.full_param(model.first);
    EXPECT_EQ(whole.scalar_type(), at::kFloat);
    EXPECT_TRUE(whole.equal(model.first.detach().to(at::kFloat)));
    EXPECT_EQ(engine.full_state(model.first, "exp_avg").scalar_type(), at::kFloat);
    const auto state = engine.optimizer_state();
    for (const auto& [name, tensor] : state) EXPECT_FALSE(name.starts_with("fp32.")) << "there is no other copy";
    Engine second(other.tensors(), config, world(cat(run, "b"), ctx.rank(), 2));
    for (size_t i = 0; i < 4; ++i) {
      second.set_full_param(other.tensors().parameters[i].second,
                            engine.full_param(model.tensors().parameters[i].second));
    }
    second.set_optimizer_state(state);
    for (int64_t i = 3; i < 6; ++i) {
      step(engine, model, i);
      step(second, other, i);
    }
    EXPECT_TRUE(model.first.detach().equal(other.first.detach()));
  });
}

TEST(Bf16Masters, AreRefusedWhereTheyCannotBe) {
  Model model;
  const auto refusal = [&](const config::Resolved& config) -> std::string {
    try {
      Engine(model.tensors(), config, world(fresh_run(), 0, 1));
    } catch (const Error& error) {
      return error.text().title;
    }
    return "nothing was refused";
  };
  auto config = narrow(1, 1, false, kZero[1]);
  for (const char* const type : {"Lamb", "lamb", "FusedLamb"}) {
    config.optimizer.type = type;
    EXPECT_EQ(refusal(config), "Lamb keeps master weights in fp32") << type;
  }
  config = narrow(1, 1, true, kZero[1]);
  config.bf16.bf16_master_weights_and_grads = false;
  EXPECT_EQ(refusal(config), "moments are kept in bf16 only where master weights are");
}

}  // namespace
}  // namespace weft
