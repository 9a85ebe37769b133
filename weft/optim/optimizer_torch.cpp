// Other devices: torch's fused kernels over all slices of a group at once, and its foreach operators
// for Lion and Adagrad.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sign.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/scalar_tensor.h>

#include <cmath>
#include <limits>
#include <optional>

#include "weft/optim/optimizer_impl.h"

namespace weft::optim {
namespace {

struct Lists {
  std::vector<at::Tensor> params, grads, momenta, variances;
};

// The fused kernels want gradients of the parameters' type, so those of another are widened into memory of their own.
Lists lists_of(std::span<const SliceState> slices) {
  Lists out;
  for (const SliceState& state : slices) {
    out.params.push_back(state.slice.param);
    out.grads.push_back(state.slice.grad.to(at::kFloat));
    if (state.momentum.defined()) out.momenta.push_back(state.momentum);
    if (state.variance.defined()) out.variances.push_back(state.variance);
  }
  return out;
}

struct Step {
  Lists& lists;
  std::span<SliceState> slices;
  const TorchScale& by;
  int64_t step;
  const WholeParameters& whole;

  at::Tensor number(double value) const {
    return at::scalar_tensor(value, lists.params.front().options().dtype(at::kFloat));
  }

  // torch divides by its scale.
  std::optional<at::Tensor> scale() const {
    if (by.tensor.defined()) return by.tensor.reciprocal();
    return by.value == 1 ? std::nullopt : std::optional(number(1 / by.value));
  }
  std::optional<at::Tensor> left_out() const {
    return by.left_out.defined() ? std::optional(by.left_out) : std::nullopt;
  }
  at::Tensor updates_made(double count) const {
    return by.num_left_out.defined() ? number(count) - by.num_left_out : number(count);
  }

  void operator()(const AdamSettings& s) const {
    // After infinitely many steps there is no bias left to correct.
    const double count = s.bias_correction ? static_cast<double>(step) : std::numeric_limits<double>::infinity();
    const std::vector<at::Tensor> steps(lists.params.size(), updates_made(count));
    const auto fused = [&](auto&& kernel) {
      kernel(lists.params, lists.grads, lists.momenta, lists.variances, at::TensorList{}, steps, s.lr, s.beta1, s.beta2,
             s.weight_decay, s.eps, /*amsgrad=*/false, /*maximize=*/false, scale(), left_out());
    };
    if (s.decoupled) return fused([](auto&&... all) { at::_fused_adamw_(all...); });
    fused([](auto&&... all) { at::_fused_adam_(all...); });
  }

  void operator()(const SgdSettings& s) const {
    at::_fused_sgd_(lists.params, lists.grads, lists.momenta, s.weight_decay, s.momentum, s.lr, s.dampening, s.nesterov,
                    /*maximize=*/false, /*is_first_step=*/step == 1, scale(), left_out());
  }

  // Where there is no fused kernel that could leave itself out the device is asked. False: leave the update out.
  bool scale_gradients() const {
    const double factor = by.tensor.defined() ? by.tensor.item<double>() : by.value;
    if (!std::isfinite(factor)) return false;
    if (factor != 1) at::_foreach_mul_(lists.grads, factor);
    return true;
  }
  // Where it has been asked anyway.
  int64_t num_updates_made() const { return by.num_left_out.defined() ? step - by.num_left_out.item<int64_t>() : step; }

  void operator()(const LionSettings& s) const {
    if (!scale_gradients()) return;
    const auto update = at::_foreach_lerp(lists.momenta, lists.grads, 1 - s.beta1);
    at::_foreach_sign_(update);
    at::_foreach_mul_(lists.params, 1 - s.lr * s.weight_decay);
    at::_foreach_add_(lists.params, update, -s.lr);
    at::_foreach_lerp_(lists.momenta, lists.grads, 1 - s.beta2);
  }

  // torch's fused one is not there for every device in all versions.
  void operator()(const AdagradSettings& s) const {
    if (!scale_gradients()) return;
    const auto grads = s.weight_decay == 0 ? lists.grads : at::_foreach_add(lists.grads, lists.params, s.weight_decay);
    at::_foreach_addcmul_(lists.variances, grads, grads);
    const auto divisors = at::_foreach_sqrt(lists.variances);
    at::_foreach_add_(divisors, s.eps);
    at::_foreach_addcdiv_(lists.params, grads, divisors, adagrad_factors(s, num_updates_made()).step_size);
  }

  void operator()(const LambSettings& s) const {
    if (scale_gradients()) lamb_with_torch(s, slices, lists.grads, num_updates_made(), whole);
  }
};

}  // namespace

void step_with_torch(const UpdateSettings& settings, std::span<SliceState> slices, const TorchScale& by, int64_t step,
                     const WholeParameters& whole) {
  Lists lists = lists_of(slices);
  std::visit(Step{lists, slices, by, step, whole}, settings);
  for (const SliceState& state : slices) {
    if (state.slice.copy.defined()) state.slice.copy.copy_(state.slice.param);
  }
}

}  // namespace weft::optim
