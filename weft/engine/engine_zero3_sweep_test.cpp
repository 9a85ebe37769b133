// Every stage has the bits of plain torch in one process: 200 steps of every kind of model there is, fp32 and bf16, one to four ranks.
// Every day a few steps of two of the eight worlds and types; with WEFT_TEST_ALL all of them, which takes a quarter of an hour.
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <array>
#include <cstdlib>
#include <set>

#include "tests/support/ranks.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/zero3_code_test_impl.h"
#include "weft/engine/zero3_modules_test_impl.h"
#include "weft/engine/zero3_nets_test_impl.h"

namespace weft {
namespace {

bool takes_all() { return std::getenv("WEFT_TEST_ALL") != nullptr; }
int num_steps() { return takes_all() ? 200 : 8; }

constexpr const char *kPlain = R"(, "gradient_clipping": 0)",
                     *kPlainBf16 = R"(, "gradient_clipping": 0, "bf16": {"enabled": true})";

// --- Plain torch -----------------------------------------------------------------------------------------------------

// What a parameter's gradient is, where ranks' are added in their order, in fp32, and divided by their number.
at::Tensor mean_gradient(const std::vector<Net>& replicas, size_t number) {
  at::Tensor sum;
  for (const Net& net : replicas) {
    const at::Tensor& own = net.parameters[number].grad();
    const at::Tensor wide = (own.defined() ? own : at::zeros_like(net.parameters[number].detach())).to(at::kFloat);
    sum = sum.defined() ? sum + wide : wide;
  }
  const at::Tensor mean = sum / at::full_like(sum, static_cast<double>(replicas.size()));
  return mean.to(replicas[0].parameters[number].scalar_type()).to(at::kFloat);
}

void to_bf16(const Net& net) {
  for (const at::Tensor& one : net.parameters) one.set_data(one.detach().to(at::kBFloat16));
  for (const auto& [name, one] : net.buffers) {
    if (one.is_floating_point()) one.set_data(one.to(at::kBFloat16));
  }
}

// One process and torch's own optimizer, over fp32 weights. A replica of the model for every rank there would be, which have the
// ranks' samples, and buffers of their own as ranks have.
template <typename Optimizer, typename Options>
NetRun train_plainly(const std::function<Net()>& make, const Options& options, const NetTraining& how) {
  std::vector<Net> replicas;
  for (int rank = 0; rank < how.size; ++rank) replicas.push_back(make());
  std::vector<size_t> trained;
  std::vector<at::Tensor> masters;
  for (size_t i = 0; i < replicas[0].parameters.size(); ++i) {
    const auto& all = replicas[0].parameters;
    const bool is_tied = std::any_of(all.begin(), all.begin() + static_cast<int64_t>(i),
                                     [&](const at::Tensor& other) { return other.is_same(all[i]); });
    if (is_tied || !all[i].requires_grad()) continue;
    trained.push_back(i);
    masters.push_back(all[i].detach().clone());
  }
  if (how.more.find("bf16") != std::string::npos) std::ranges::for_each(replicas, to_bf16);
  Optimizer optimizer(masters, options);
  NetRun out;
  for (int64_t step = 0; step < how.num_steps; ++step) {
    for (int64_t rank = 0; rank < how.size; ++rank) {
      const Net& net = replicas[static_cast<size_t>(rank)];
      const at::Tensor loss = net.loss(net, step * how.size + rank);
      if (rank == 0) out.losses.push_back(loss.template item<float>());
      loss.backward();
    }
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < trained.size(); ++i) masters[i].mutable_grad() = mean_gradient(replicas, trained[i]);
    optimizer.step();
    for (const Net& net : replicas) {
      for (size_t i = 0; i < trained.size(); ++i) {
        net.parameters[trained[i]].copy_(masters[i]);
        net.parameters[trained[i]].mutable_grad().reset();
      }
    }
  }
  for (const at::Tensor& one : replicas[0].parameters) out.parameters.push_back(one.detach().clone());
  for (const auto& [name, one] : replicas[0].buffers) out.buffers.push_back(one.clone());
  return out;
}

// --- All of them -----------------------------------------------------------------------------------------------------

// Whole parameters, shared ones, and slices of which as little as possible is whole.
constexpr std::array kZeros = {R"(, "zero_optimization": {"stage": 0}, "weft": {"shard_update": false})",
                               R"(, "zero_optimization": {"stage": 1})", kStage2,
                               R"(, "zero_optimization": {"stage": 3})", kTight};

struct SweepCase {
  int size;
  const char* type;
};

std::vector<SweepCase> cases() {
  if (!takes_all()) return {{2, kPlain}, {3, kPlainBf16}};
  std::vector<SweepCase> out;
  for (const int size : {1, 2, 3, 4}) {
    for (const char* type : {kPlain, kPlainBf16}) out.push_back({size, type});
  }
  return out;
}

std::vector<NetKind> all_kinds() {
  std::vector<NetKind> out(std::begin(kNetKinds), std::end(kNetKinds));
  out.push_back({"experts", experts});
  out.insert(out.end(), std::begin(kCodeKinds), std::end(kCodeKinds));
  out.insert(out.end(), std::begin(kModuleKinds), std::end(kModuleKinds));
  return out;
}

class EngineZero3Sweep : public testing::TestWithParam<NetKind> {};
INSTANTIATE_TEST_SUITE_P(All, EngineZero3Sweep, testing::ValuesIn(all_kinds()),
                         [](const auto& one) { return std::string(one.param.name); });

// weft's SGD rounds as torch's does, and the fabric's sums are taken in the order of ranks: so nothing differs.
TEST_P(EngineZero3Sweep, EveryStageHasTheBitsOfPlainTorch) {
  const auto options = torch::optim::SGDOptions(0.001).momentum(0.9).weight_decay(0.01);
  for (const SweepCase& one : cases()) {
    NetTraining how{.size = one.size, .more = one.type, .num_steps = num_steps(), .with_sgd = true};
    const NetRun expected = train_plainly<torch::optim::SGD>(GetParam().make, options, how);
    EXPECT_GT(std::set(expected.losses.begin(), expected.losses.end()).size(), 2) << "it trains";
    for (const char* zero : kZeros) {
      how.more = cat(zero, one.type);
      expect_same(train_net(GetParam().make, how), expected, cat(one.size, " ranks", how.more));
    }
  }
}

TEST_P(EngineZero3Sweep, EveryStageHasTheSameBitsWithAdam) {
  for (const SweepCase& one : {SweepCase{2, kPlain}, SweepCase{3, kPlainBf16}}) {
    NetTraining how{.size = one.size, .more = cat(kZeros[0], one.type), .num_steps = num_steps()};
    const NetRun expected = train_net(GetParam().make, how);
    for (const char* zero : kZeros) {
      if (zero == kZeros[0]) continue;
      how.more = cat(zero, one.type);
      expect_same(train_net(GetParam().make, how), expected, cat(one.size, " ranks", how.more));
    }
  }
}

// weft's AdamW rounds elsewhere than torch's, by a unit in the last place: six updates of 0.01 stay within a hundredth of one.
TEST_P(EngineZero3Sweep, IsNearTorchWithAdam) {
  const auto options = torch::optim::AdamWOptions(0.01).weight_decay(0);
  const NetTraining how{.size = 3, .more = cat(kTight, kPlain), .num_steps = 6};
  const NetRun expected = train_plainly<torch::optim::AdamW>(GetParam().make, options, how);
  const NetRun found = train_net(GetParam().make, how);
  for (size_t i = 0; i < expected.parameters.size(); ++i) {
    // A bias before a norm, and that of attention's keys, has a gradient of rounding errors alone; Adam makes whole steps of them.
    const std::string_view name = GetParam().name;
    if ((name.starts_with("conv") && i == 1) || (name == "gpt" && i == 5)) continue;
    EXPECT_LT((found.parameters[i] - expected.parameters[i]).abs().max().item<float>(), 1e-4F) << "parameter " << i;
  }
}

}  // namespace
}  // namespace weft
