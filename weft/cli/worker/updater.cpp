#include "weft/cli/worker/updater.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <utility>

namespace weft::cli {
namespace {

constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kEps = 1e-8;
constexpr double kWeightDecay = 0.01;

int64_t total_bytes(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

class FusedAdamW : public Updater {
 public:
  explicit FusedAdamW(checkpoint::NamedTensors parameters) {
    for (auto& [name, parameter] : parameters) {
      names_.push_back(name);
      first_moments_.push_back(at::zeros_like(parameter));
      second_moments_.push_back(at::zeros_like(parameter));
      parameters_.push_back(std::move(parameter));
    }
    // The kernel wants a step count beside each tensor, in fp32 on its device. All are the same tensor: one addition a step,
    // not one kernel per parameter.
    step_ = at::zeros({}, parameters_.front().options());
    steps_.assign(parameters_.size(), step_);
  }

  void backward(const at::Tensor& loss) override { loss.backward(); }

  void step(double lr) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    gradients.reserve(parameters_.size());
    for (auto& parameter : parameters_) {
      // Dropped, not zeroed: the next backward then hands its own buffer over instead of adding into this one.
      gradients.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
    }
    step_.add_(1);
    at::_fused_adamw_(parameters_, gradients, first_moments_, second_moments_, /*max_exp_avg_sqs=*/{}, steps_, lr,
                      kBeta1, kBeta2, kWeightDecay, kEps, /*amsgrad=*/false, /*maximize=*/false);
  }

  StateBytes state_bytes() const override {
    const int64_t params = total_bytes(parameters_);
    return {.params = params, .grads = params, .optimizer = total_bytes(first_moments_) + total_bytes(second_moments_)};
  }

  checkpoint::NamedTensors state() override {
    checkpoint::NamedTensors all;
    for (size_t i = 0; i < names_.size(); ++i) {
      all.emplace_back("adamw.first_moment." + names_[i], first_moments_[i]);
      all.emplace_back("adamw.second_moment." + names_[i], second_moments_[i]);
    }
    all.emplace_back("adamw.step", step_);
    return all;
  }

 private:
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_, first_moments_, second_moments_, steps_;
  at::Tensor step_;
};

}  // namespace

std::unique_ptr<Updater> make_fused_adamw(checkpoint::NamedTensors parameters) {
  return std::make_unique<FusedAdamW>(std::move(parameters));
}

}  // namespace weft::cli
