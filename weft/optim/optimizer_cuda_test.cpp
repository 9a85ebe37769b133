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

// The device rounds some operations otherwise: 1e-5 relative after five steps.
void expect_close(const at::Tensor& device, const at::Tensor& cpu) {
  EXPECT_TRUE(at::allclose(device.cpu(), cpu, 1e-5, 1e-6));
}

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
  expect_close(device, param);
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
