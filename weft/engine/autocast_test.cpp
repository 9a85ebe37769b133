// Types inside and outside of autocast, and that training under it is training with casts written by hand.
#include "weft/engine/autocast.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"

namespace weft {
namespace {

at::ScalarType product_type() { return at::mm(at::ones({2, 2}), at::ones({2, 2})).scalar_type(); }

TEST(Autocast, ProductsAreNarrowInsideOnly) {
  EXPECT_EQ(product_type(), at::kFloat);
  {
    const Autocast narrow(at::kCPU, at::kBFloat16);
    EXPECT_EQ(product_type(), at::kBFloat16);
  }
  EXPECT_EQ(product_type(), at::kFloat);
}

TEST(Autocast, TheInnermostDecides) {
  const Autocast outer(at::kCPU, at::kBFloat16);
  {
    const Autocast inner(at::kCPU, at::kHalf);
    EXPECT_EQ(product_type(), at::kHalf);
    {
      const Autocast off(at::kCPU, at::kHalf, false);
      EXPECT_EQ(product_type(), at::kFloat);
      const Autocast nothing;
      EXPECT_EQ(product_type(), at::kFloat);
    }
    EXPECT_EQ(product_type(), at::kHalf);
  }
  EXPECT_EQ(product_type(), at::kBFloat16);
}

TEST(Autocast, AnExceptionEndsIt) {
  try {
    const Autocast narrow(at::kCPU, at::kBFloat16);
    const Autocast again(at::kCPU, at::kHalf);
    throw std::runtime_error("forward failed");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(product_type(), at::kFloat);
  }
}

TEST(Autocast, RefusesATypeThatIsNotNarrow) {
  EXPECT_THROW(Autocast(at::kCPU, at::kDouble), Error);
  EXPECT_EQ(product_type(), at::kFloat);
}

// A parameter's cast is kept inside a region, and forgotten at the end of the outermost one.
TEST(Autocast, TheNextRegionSeesNewWeights) {
  const at::Tensor weight = at::ones({2, 2}).set_requires_grad(true), one = at::ones({2, 2});
  for (const float expected : {2.0F, 6.0F}) {
    const Autocast outer(at::kCPU, at::kBFloat16);
    {
      const Autocast inner(at::kCPU, at::kBFloat16);
      EXPECT_EQ(at::mm(one, weight).max().item<float>(), expected);
    }
    weight.detach().fill_(3);
    EXPECT_EQ(at::mm(one, weight).max().item<float>(), expected) << "the cast is kept in the outer region";
  }
}

at::Tensor narrow_mm(const at::Tensor& a, const at::Tensor& b) {
  return at::mm(a.to(at::kBFloat16), b.to(at::kBFloat16));
}

// Model::loss() with the casts that autocast makes.
at::Tensor loss_by_hand(const Model& model, int64_t sample) {
  const at::Tensor hidden = (narrow_mm(numbers({5, 24}, 100 + sample), model.first) + model.bias).tanh();
  const at::Tensor out = narrow_mm(hidden, model.second) * model.seldom;
  return (out - numbers({5, 8}, 900 + sample)).pow(2).mean();
}

// The losses of 20 steps on 2 ranks, rank after rank.
std::vector<float> losses(const std::string& more, bool by_hand) {
  constexpr int kRanks = 2, kSteps = 20;
  std::vector<float> out(kRanks * kSteps);
  const std::string run = fresh_run();
  test::run_ranks_as_threads(kRanks, [&](test::RankContext& ctx) {
    Model model;
    Engine engine(model.tensors(), settings(kRanks, 1, more), world(run, ctx.rank(), kRanks));
    for (int64_t step = 0; step < kSteps; ++step) {
      const int64_t sample = step * kRanks + ctx.rank();
      const auto forward = [&] {
        const Autocast region = engine.autocast();
        return by_hand ? loss_by_hand(model, sample) : model.loss(sample);
      };
      const at::Tensor loss = forward();
      EXPECT_EQ(model.first.scalar_type(), at::kFloat);
      engine.backward(loss);
      EXPECT_TRUE(engine.step().updated);
      out[static_cast<size_t>(ctx.rank() * kSteps + step)] = loss.item<float>();
    }
  });
  return out;
}

TEST(EngineAutocast, TrainsAsWithCastsByHand) {
  constexpr const char* kEnabled = R"(, "torch_autocast": {"enabled": true, "dtype": "bfloat16"})";
  const auto narrow = losses(kEnabled, false);
  EXPECT_EQ(narrow, losses("", true)) << "the same operators on the same types: the same bits";
  const auto wide = losses("", false);
  EXPECT_NE(narrow, wide);
  // bf16 keeps 8 bits of a number: products of 24 and 40 terms lose less than 2 % of a loss near 1 here.
  for (size_t i = 0; i < wide.size(); ++i) EXPECT_NEAR(narrow[i], wide[i], 0.02 * wide[i] + 0.02) << i;
  EXPECT_EQ(losses(R"(, "torch_autocast": {"enabled": true, "dtype": "fp32"})", false), wide);
}

// fp16 has 5 bits of exponent: gradients of 1e-6 times a loss are gone without a scale.
TEST(EngineAutocast, InFp16ScalesTheLoss) {
  constexpr const char* kFp16 = R"(, "torch_autocast": {"enabled": true, "dtype": "fp16"}, "gradient_clipping": 0)";
  for (const char* zero : {R"(, "weft": {"shard_update": false})", R"(, "zero_optimization": {"stage": 1})",
                           R"(, "zero_optimization": {"stage": 2}, "weft": {"common_parameters": false})"}) {
    const std::string run = fresh_run();
    test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
      Model model;
      Engine engine(model.tensors(), settings(2, 1, cat(kFp16, zero)), world(run, ctx.rank(), 2));
      EXPECT_EQ(engine.loss_scale(), 65536);
      const auto loss = [&](int64_t sample) {
        const Autocast region = engine.autocast();
        return model.loss(sample);
      };
      EXPECT_EQ(at::mm(numbers({5, 24}, 1), model.first.detach()).scalar_type(), at::kFloat);
      engine.backward(loss(ctx.rank()) * 1e-8);
      EXPECT_GT(engine.full_grad(model.first).abs().max().item<float>(), 0) << "what the scale is for";
      EXPECT_LT(engine.full_grad(model.first).abs().max().item<float>(), 1e-7) << "and it is taken out again";
      EXPECT_TRUE(engine.step().updated);
      const at::Tensor before = model.first.detach().clone();
      engine.backward(loss(ctx.rank()) * (ctx.rank() == 0 ? 1e6 : 1));
      EXPECT_FALSE(engine.step().updated) << "an overflow on one rank is one on all";
      EXPECT_TRUE(model.first.detach().equal(before));
      EXPECT_EQ(engine.loss_scale(), 32768) << "as torch's GradScaler, which halves at once";
      engine.backward(loss(ctx.rank()));
      EXPECT_TRUE(engine.step().updated);
      EXPECT_EQ(engine.skipped_steps(), 1);
    });
  }
}

TEST(EngineAutocast, InFp16GoesOnWithItsScale) {
  const auto config = settings(1, 1, R"(, "torch_autocast": {"enabled": true, "dtype": "fp16"})");
  Model model, other;
  Engine engine(model.tensors(), config, world(fresh_run(), 0, 1));
  const auto loss = [&] {
    const Autocast region = engine.autocast();
    return model.loss(0);
  };
  engine.backward(loss() * 1e6);
  EXPECT_FALSE(engine.step().updated);
  Engine second(other.tensors(), config, world(fresh_run(), 0, 1));
  second.set_optimizer_state(engine.optimizer_state());
  EXPECT_EQ(second.loss_scale(), 32768);
}

TEST(EngineAutocast, InFp16FollowsFp32) {
  const auto narrow = losses(R"(, "torch_autocast": {"enabled": true, "dtype": "fp16"})", false);
  const auto wide = losses("", false);
  EXPECT_NE(narrow, wide);
  // fp16 keeps 11 bits of a number.
  for (size_t i = 0; i < wide.size(); ++i) EXPECT_NEAR(narrow[i], wide[i], 0.003 * wide[i] + 0.003) << i;
}

}  // namespace
}  // namespace weft
