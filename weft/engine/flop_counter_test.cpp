#include "weft/engine/flop_counter.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <gtest/gtest.h>

#include "tests/support/text.h"
#include "weft/engine/autocast.h"
#include "weft/engine/flops_table.h"

namespace weft::engine {
namespace {

using test::has;

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

FlopCount sample_count() {
  constexpr int64_t kGiga = 1'000'000'000;
  const auto row = [](const char* name, const char* type, int parent, int depth, int64_t giga) {
    return ModuleRow{.name = name,
                     .type = type,
                     .parent = parent,
                     .depth = depth,
                     .num_parameters = giga * 1000,
                     .flops = {.forward = giga * kGiga, .backward = 2 * giga * kGiga, .elapsed_ns = giga * 1'500'000}};
  };
  return {.total = 31 * kGiga,
          .by_operator = {{"aten::addmm", 11 * kGiga}, {"aten::mm", 20 * kGiga}},
          .calls = {{"aten::addmm", 2}, {"aten::mm", 4}},
          .modules = {row("", "Net", -1, 0, 10), row("a", "Block", 0, 1, 3), row("a.in", "Linear", 1, 2, 2),
                      row("b", "Block", 0, 1, 3), row("c", "Head", 0, 1, 4)},
          .elsewhere = {.forward = kGiga}};
}

TEST(FlopsTable, HasTheTreeAndTheLargestOperatorsFirst) {
  const std::string text = flops_table(
      sample_count(), {.step = 5, .step_ms = 100, .peak_flops_per_s = 6.2e11, .has_times = true, .top_modules = 2});
  EXPECT_TRUE(has(text,
                  "FLOPs of step 5 on this rank: 31 GFLOP in 100.0 ms: 310 GFLOP/s, 50.0 % of the peak\n"
                  "forward 11 GFLOP, backward 20 GFLOP, computed again 0 GFLOP\n"))
      << text;
  EXPECT_TRUE(has(text,
                  "\n  1      Block          2       6,000  18 G  58.1 %\n"
                  "  1      Head           1       4,000  12 G  38.7 %\n"))
      << text;
  EXPECT_TRUE(has(text,
                  "\n    a          Block        3,000      3 G       6 G    0 G  29.0 %   4.50 ms\n"
                  "      in       Linear       2,000      2 G       4 G    0 G  19.4 %   3.00 ms\n"))
      << text;
  EXPECT_TRUE(has(text, "\n  (elsewhere)                          1 G")) << text;
  EXPECT_LT(text.find("aten::mm"), text.find("aten::addmm"));
  EXPECT_FALSE(has(text, "recompute_fwd_factor"));
}

TEST(FlopsTable, IsCutAsTheConfigSays) {
  const FlopCount count = sample_count();
  const std::string top = flops_table(count, {.step = 5, .module_depth = 1, .recompute_fwd_factor = 1});
  EXPECT_TRUE(has(top, "    a ")) << top;
  EXPECT_FALSE(has(top, "Linear")) << top;
  EXPECT_FALSE(has(top, " ms")) << top;
  EXPECT_TRUE(has(top, "recompute_fwd_factor 1: forward times 4 is 44 GFLOP, an estimate; counted were 31 GFLOP"))
      << top;
  const std::string summary = flops_table(count, {.step = 5, .detailed = false});
  EXPECT_TRUE(has(summary, "  1      Block ")) << summary;
  EXPECT_FALSE(has(summary, "Head")) << "one of each depth: " << summary;
  EXPECT_FALSE(has(summary, "(model)") || has(summary, "aten::")) << summary;
  FlopCount by_operator = sample_count();
  by_operator.modules.clear();
  EXPECT_EQ(flops_table(by_operator, {.step = 5, .detailed = false}).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace weft::engine
