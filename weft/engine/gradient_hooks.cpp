#include "weft/engine/gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace weft::engine {
namespace {

class Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(int parameter, std::function<void(int)> ready) : parameter_(parameter), ready_(std::move(ready)) {}
  void operator()(const at::Tensor& /*parameter*/) override { ready_(parameter_); }

 private:
  const int parameter_;
  const std::function<void(int)> ready_;
};

}  // namespace

GradientHooks::GradientHooks(std::vector<Watched> watched, const std::function<void(int parameter)>& ready)
    : watched_(std::move(watched)) {
  for (const auto& one : watched_) {
    torch::autograd::impl::set_post_acc_grad_hooks(one.tensor, std::make_unique<Hook>(one.parameter, ready));
  }
}

GradientHooks::~GradientHooks() {
  for (const auto& one : watched_) torch::autograd::impl::set_post_acc_grad_hooks(one.tensor, nullptr);
}

}  // namespace weft::engine
