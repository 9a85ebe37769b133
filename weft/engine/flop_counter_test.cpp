#include "weft/engine/flop_counter.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <gtest/gtest.h>

#include "weft/engine/autocast.h"
#include "weft/engine/flops_table.h"

namespace weft::engine {
namespace {

at::Tensor parameter(at::IntArrayRef shape) { return at::rand(shape).requires_grad_(); }

TEST(FlopCounter, CountsProductsForwardAndBackward) {
  const at::Tensor x = parameter({6, 5, 4}), weight = parameter({3, 4}), bias = parameter({3});
  FlopCounter counter;
  const at::Tensor y = at::linear(x, weight, bias);
  y.sum().backward();
  const FlopCount count = counter.end();
  EXPECT_EQ(count.total, 3 * 2 * 30 * 4 * 3) << "forward, and a gradient for each of two factors";
}

TEST(FlopCounter, CountsAttentionWhicheverKernelRuns) {
  const at::Tensor q = parameter({2, 3, 8, 16}), k = parameter({2, 3, 8, 16}), v = parameter({2, 3, 8, 16});
  FlopCounter counter;
  at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true).sum().backward();
  EXPECT_EQ(counter.end().total, 3 * (2 * 2 * 3 * 8 * 8 * (16 + 16)));
}

TEST(FlopCounter, CountsConvolutions) {
  const at::Tensor x = parameter({2, 4, 9, 9}), weight = parameter({8, 4, 3, 3});
  FlopCounter counter;
  const at::Tensor y = at::conv2d(x, weight, {}, 1, 1);
  y.sum().backward();
  EXPECT_EQ(counter.end().total, 3 * 2 * (2 * 8 * 9 * 9) * (4 * 3 * 3));
}

// Whichever kernel runs: a fused one for all steps, or a product a step.
TEST(FlopCounter, CountsRecurrentLayers) {
  constexpr int64_t kSteps = 5, kBatch = 3, kIn = 8, kHidden = 16;
  const at::Tensor x = parameter({kSteps, kBatch, kIn});
  std::vector<at::Tensor> state = {parameter({2, kBatch, kHidden}), parameter({2, kBatch, kHidden})}, weights;
  for (const int64_t in : {kIn, kHidden}) {
    for (const auto& shape :
         std::vector<std::vector<int64_t>>{{4 * kHidden, in}, {4 * kHidden, kHidden}, {4 * kHidden}, {4 * kHidden}})
      weights.push_back(parameter(shape));
  }
  FlopCounter counter;
  const auto [out, h, c] = at::lstm(x, state, weights, true, 2, 0.0, true, false, false);
  out.sum().backward();
  const int64_t per_token = 4 * kHidden * (kIn + kHidden) + 4 * kHidden * (kHidden + kHidden);
  EXPECT_EQ(counter.end().total, 3 * 2 * kSteps * kBatch * per_token);
}

TEST(FlopCounter, CountsOnceWhatAutocastCallsAgain) {
  const at::Tensor x = parameter({6, 4}), weight = parameter({4, 3});
  FlopCounter counter;
  at::Tensor y;
  {
    const Autocast narrow(at::kCPU, at::kBFloat16);
    y = at::mm(x, weight);
  }
  y.sum().backward();
  const FlopCount count = counter.end();
  EXPECT_EQ(count.total, 3 * 2 * 6 * 4 * 3);
  EXPECT_EQ(count.calls.at("aten::mm"), 3);
}

TEST(FlopCounter, CountsOnlyWhileItLives) {
  const at::Tensor a = at::rand({4, 4});
  FlopCounter first;
  at::matmul(a, a);
  const FlopCount count = first.end();
  at::matmul(a, a);
  EXPECT_EQ(count.total, 128);
  EXPECT_EQ(count.calls.at("aten::mm"), 1);
  FlopCounter second;
  EXPECT_EQ(second.end().total, 0);
  EXPECT_EQ(second.end().total, 0);
}

TEST(FlopsTable, HasTheLargestFirst) {
  const FlopCount count{.total = 4'000'000'000,
                        .by_operator = {{"aten::addmm", 1'000'000'000}, {"aten::mm", 3'000'000'000}},
                        .calls = {{"aten::addmm", 2}, {"aten::mm", 4}}};
  const std::string text = flops_table(count, {.step = 5, .step_ms = 100, .peak_flops_per_s = 8e10});
  EXPECT_NE(text.find("FLOPs of step 5 on this rank: 4 GFLOP in 100.0 ms: 40 GFLOP/s, 50.0 % of the peak"),
            std::string::npos)
      << text;
  EXPECT_LT(text.find("aten::mm"), text.find("aten::addmm"));
  EXPECT_NE(text.find("75.0 %"), std::string::npos) << text;
  EXPECT_EQ(flops_table(count, {.step = 5, .only_total = true}).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace weft::engine
