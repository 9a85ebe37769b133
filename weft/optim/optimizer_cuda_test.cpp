// The optimizer on device tensors against the same on the CPU. Without a device every case is skipped.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/optim/optimizer.h"

namespace weft::optim {
namespace {

class OptimizerOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    const bool present = at::hasCUDA() && c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).deviceCount() > 0;
    if (!present) GTEST_SKIP() << "there is no CUDA device";
  }
};

// weft's own kernels do on the device what they do here; torch's round some operations otherwise: 1e-5 relative after five steps.
void expect_close(const at::Tensor& device, const at::Tensor& cpu) {
  EXPECT_TRUE(has_own_kernels(at::Device(at::kCUDA, 0)) ? device.cpu().equal(cpu)
                                                        : at::allclose(device.cpu(), cpu, 1e-5, 1e-6));
}
void expect_close_by_torch(const at::Tensor& device, const at::Tensor& cpu) {
  EXPECT_TRUE(at::allclose(device.cpu(), cpu, 1e-5, 1e-6));
}

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

TEST_F(OptimizerOnCuda, FollowsTheCpu) {
  const UpdateSettings all[] = {AdamSettings{.weight_decay = 0.1},
                                AdamSettings{.weight_decay = 0.1, .decoupled = false},
                                AdamSettings{.bias_correction = false},
                                SgdSettings{.lr = 0.1, .weight_decay = 0.1},
                                SgdSettings{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true},
                                LionSettings{.weight_decay = 0.1},
                                AdagradSettings{.lr_decay = 0.1, .weight_decay = 0.1, .initial_sum = 0.5}};
  for (const UpdateSettings& settings : all) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const at::Tensor param = at::randn({10'007}), grad = at::randn({10'007}).to(type);
      const at::Tensor device = param.cuda(), copy = at::zeros({10'007}, device.options().dtype(at::kBFloat16));
      Optimizer here({{settings, {{"s", param, grad}}}}), there({{settings, {{"s", device, grad.cuda(), copy}}}});
      for (int i = 0; i < 5; ++i) {
        there.set_grad(0, 0, grad.cuda());  // scaling overwrites it
        here.step(0.5);
        there.step(0.5);
      }
      expect_close(device, param);
      const NamedState a = there.state(), b = here.state();
      for (size_t i = 0; i < a.size(); ++i) expect_close(a[i].second.to(at::kFloat), b[i].second.to(at::kFloat));
      EXPECT_TRUE(copy.equal(device.to(at::kBFloat16)));
    }
  }
}

// More of them than one launch takes, of any length, at places that no vector could be loaded from, in any type.
TEST_F(OptimizerOnCuda, SlicesOfAnyLengthPlaceAndTypeHaveTheBitsOfTheCpu) {
  if (!has_own_kernels(at::Device(at::kCUDA, 0)))
    GTEST_SKIP()
        << "NVRTC is not here or WEFT_DEVICE_KERNELS is 0: torch's kernels, which round otherwise, do the work";
  constexpr int64_t kCount = 400'000;
  const at::Tensor param = at::randn({kCount}), there = param.cuda();
  ParamGroup here{.settings = AdamSettings{.weight_decay = 0.1}, .slices = {}}, device = here;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (int64_t first = 0, i = 0; first < kCount; ++i) {
    const int64_t count = std::min(kCount - first, i % 7 == 0 ? 20'000 + i : 1 + i * 13 % 4'200);
    const at::Tensor grad = at::randn({count}).to(kTypes[i % 3]);
    copies.emplace_back(at::zeros({count}, kTypes[i / 3 % 3]),
                        at::zeros({count}, there.options().dtype(kTypes[i / 3 % 3])));
    const std::string name = std::to_string(i);
    here.slices.push_back({name, param.narrow(0, first, count), grad, copies.back().first});
    device.slices.push_back({name, there.narrow(0, first, count), grad.cuda(), copies.back().second});
    first += count;
  }
  EXPECT_GT(here.slices.size(), 100U);
  Optimizer a({here}), b({device});
  for (int i = 0; i < 3; ++i) a.step(0.25), b.step(0.25);
  EXPECT_TRUE(there.cpu().equal(param));
  for (const auto& [mine, other] : copies) EXPECT_TRUE(other.cpu().equal(mine));
}

TEST_F(OptimizerOnCuda, Bf16ParametersAndStateHaveTheBitsOfTheCpu) {
  if (!has_own_kernels(at::Device(at::kCUDA, 0)))
    GTEST_SKIP()
        << "NVRTC is not here or WEFT_DEVICE_KERNELS is 0: torch's kernels, which round otherwise, do the work";
  const at::Tensor param = at::randn({5'003}).to(at::kBFloat16), grad = at::randn({5'003}).to(at::kBFloat16),
                   there = param.cuda();
  Optimizer a({{.settings = AdamSettings{}, .slices = {{"s", param, grad}}, .state_type = at::kBFloat16}}),
      b({{.settings = AdamSettings{}, .slices = {{"s", there, grad.cuda()}}, .state_type = at::kBFloat16}});
  for (int i = 0; i < 3; ++i) a.step(), b.step();
  EXPECT_TRUE(there.cpu().equal(param));
}

TEST_F(OptimizerOnCuda, SumsOfSquaresAreThoseOfTheCpu) {
  std::vector<at::Tensor> parts;
  double expected = 0;
  for (int64_t i = 0; i < 60; ++i) {
    const at::Tensor grad = at::randn({i * i * 20}).to(kTypes[i % 3]);
    expected += sum_of_squares(grad).value();
    parts.push_back(grad.cuda());
  }
  const double found = sum_of_squares_there(parts).item<double>();
  EXPECT_NEAR(found / expected, 1, has_own_kernels(parts.front().device()) ? 1e-12 : 1e-5);
  parts[7][3] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(sum_of_squares_there(parts).item<double>()));
}

TEST_F(OptimizerOnCuda, LambFollowsTheCpu) {
  const LambSettings settings = {.lr = 0.01, .weight_decay = 0.1};
  const at::Tensor param = at::randn({10'007}), grad = at::randn({10'007}), device = param.cuda();
  const auto group = [&](const at::Tensor& p, const at::Tensor& g) {
    const std::vector<Piece> first = {{0, 3'000, 0}, {3'008, 992, 1}}, second = {{0, 5'000, 1}, {5'001, 1'006, 2}};
    const auto part = [](const at::Tensor& t, int64_t from, int64_t count) { return t.narrow(0, from, count); };
    return ParamGroup{
        .settings = settings,
        .slices = {{.name = "a", .param = part(p, 0, 4'000), .grad = part(g, 0, 4'000), .pieces = first},
                   {.name = "b", .param = part(p, 4'000, 6'007), .grad = part(g, 4'000, 6'007), .pieces = second}},
        .num_parameters = 3};
  };
  const at::Tensor scaled = (grad * 0.5).cuda();
  int num_sums = 0;
  Optimizer here({group(param, grad)}), there({group(device, scaled)}, [&](const at::Tensor& sums) {
    ++num_sums;
    EXPECT_TRUE(sums.is_cuda() && sums.scalar_type() == at::kDouble);
  });
  for (int i = 0; i < 5; ++i) here.step(0.5), there.step(at::scalar_tensor(1.0, device.options()));
  there.step(at::scalar_tensor(NAN, device.options()));
  expect_close_by_torch(device, param);
  EXPECT_EQ(num_sums, 5);
}

TEST_F(OptimizerOnCuda, AFactorOnTheDeviceIsTheNumberAndLeavesOutWhatIsNotFinite) {
  const UpdateSettings all[] = {AdamSettings{.weight_decay = 0.1}, SgdSettings{.lr = 0.1}, LionSettings{},
                                AdagradSettings{.lr_decay = 0.1}};
  for (const UpdateSettings& settings : all) {
    const at::Tensor a = at::randn({1'003}).cuda(), b = a.clone(), grad = at::randn({1'003}).cuda();
    Optimizer by_number({{settings, {{"s", a, grad.clone()}}}}), by_tensor({{settings, {{"s", b, grad.clone()}}}});
    for (int i = 0; i < 4; ++i) {
      by_number.set_grad(0, 0, grad.clone());
      by_tensor.set_grad(0, 0, grad.clone());
      if (i == 2) by_tensor.step(at::scalar_tensor(NAN, grad.options()));
      by_number.step(0.5);
      by_tensor.step(at::scalar_tensor(0.5, grad.options()));
    }
    EXPECT_TRUE(b.equal(a));
    EXPECT_EQ(by_tensor.num_left_out(), 1);
  }
}

// Bias corrections and the schedule are those of a run that never saw the bad batches, also after a resume, and for a slice that
// joined in between.
TEST_F(OptimizerOnCuda, WhatIsLeftOutMovesNeitherScheduleNorBiasCorrection) {
  const Schedule schedule = LinearLr{.start_factor = 0.1, .end_factor = 1, .total_iters = 6};
  const UpdateSettings all[] = {AdamSettings{.lr = 0.1, .weight_decay = 0.1}, SgdSettings{.lr = 0.1, .momentum = 0.9},
                                LionSettings{.lr = 0.1}, AdagradSettings{.lr = 0.1, .lr_decay = 0.1}};
  for (const UpdateSettings& settings : all) {
    const at::Tensor start = at::randn({1'003}).cuda(), grad = at::randn({1'003}).cuda();
    std::vector<at::Tensor> results;
    std::vector<std::vector<double>> rates(2);
    for (const bool is_bad : {false, true}) {
      const at::Tensor param = start.clone(), late = start.clone();
      const auto made = [&] {
        FlatSlice joined{.name = "late", .param = late, .grad = grad.clone(), .since = 2};
        return Optimizer({{settings, {{"s", param, grad.clone()}, joined}}});
      };
      auto optimizer = std::make_unique<Optimizer>(made());
      const auto step = [&](double factor) {
        for (const size_t slice : {0, 1}) optimizer->set_grad(0, slice, grad.clone());
        optimizer->follow(schedule);
        rates[is_bad ? 1 : 0].push_back(optimizer->lr(0));
        optimizer->step(at::scalar_tensor(factor, grad.options()));
        if (!std::isfinite(factor)) rates[1].pop_back();
      };
      optimizer->state().back().second.fill_(2);
      for (int i = 0; i < 5; ++i) {
        if (is_bad && i != 1) step(NAN);
        step(0.5);
        if (!is_bad || i != 2) continue;
        auto next = std::make_unique<Optimizer>(made());
        const NamedState from = optimizer->state(), into = next->state();
        for (size_t k = 0; k < from.size(); ++k) into[k].second.copy_(from[k].second);
        optimizer = std::move(next);
      }
      EXPECT_EQ(optimizer->num_steps(), 7);
      EXPECT_EQ(optimizer->num_left_out(), is_bad ? 2 : 0) << "since the resume";
      results.push_back(param);
      results.push_back(late);
    }
    EXPECT_EQ(rates[0], rates[1]);
    EXPECT_TRUE(results[0].equal(results[2]));
    EXPECT_TRUE(results[1].equal(results[3]));
    EXPECT_FALSE(results[0].equal(start));
  }
}

// A slice of another age than the rest has the bits it has on the CPU.
TEST_F(OptimizerOnCuda, ASliceThatJoinsLaterFollowsTheCpu) {
  for (const UpdateSettings& settings :
       {UpdateSettings(AdamSettings{.lr = 0.1}), UpdateSettings(AdagradSettings{.lr_decay = 0.1})}) {
    const at::Tensor param = at::randn({2'000}), grad = at::randn({2'000}), device = param.cuda();
    const auto optimizer = [&](const at::Tensor& p, const at::Tensor& g) {
      FlatSlice late{.name = "late", .param = p.narrow(0, 0, 700), .grad = g.narrow(0, 0, 700), .since = 3};
      FlatSlice early{.name = "early", .param = p.narrow(0, 700, 1'300), .grad = g.narrow(0, 700, 1'300)};
      Optimizer out({{settings, {late, early}}});
      out.state().back().second.fill_(3);
      return out;
    };
    Optimizer here = optimizer(param, grad), there = optimizer(device, grad.cuda());
    for (int i = 0; i < 4; ++i) here.step(), there.step();
    expect_close(device, param);
  }
}

}  // namespace
}  // namespace weft::optim
