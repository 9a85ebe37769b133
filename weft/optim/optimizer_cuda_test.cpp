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

}  // namespace
}  // namespace weft::optim
