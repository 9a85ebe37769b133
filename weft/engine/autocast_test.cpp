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

TEST(EngineAutocast, RefusesFp16WhichWouldNeedALossScale) {
  test::run_ranks_as_threads(1, [&](test::RankContext&) {
    const Model model;
    try {
      Engine engine(model.tensors(), settings(1, 1, R"(, "torch_autocast": {"enabled": true, "dtype": "fp16"})"),
                    world(fresh_run(), 0, 1));
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.text().title, "this version of weft has no loss scale for autocast in fp16");
    }
  });
}

}  // namespace
}  // namespace weft
