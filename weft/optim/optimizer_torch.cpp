// Other devices: weft's own kernels where they can be had, else torch's fused ones over all slices of a group at once, and its
// foreach operators for Lion and Adagrad.
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
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "weft/optim/device_kernels_impl.h"

namespace weft::optim {
namespace {

struct SliceLists {
  std::vector<at::Tensor> params, grads, momenta, variances;
};

// The fused kernels want gradients of the parameters' type, so those of another are widened into memory of their own.
SliceLists slice_lists(std::span<const SliceState> slices) {
  SliceLists out;
  for (const SliceState& state : slices) {
    out.params.push_back(state.slice.param);
    out.grads.push_back(state.slice.grad.to(at::kFloat));
    if (state.momentum.defined()) out.momenta.push_back(state.momentum);
    if (state.variance.defined()) out.variances.push_back(state.variance);
  }
  return out;
}

// What torch's fused kernels want on the device, made once for all slices.
struct DeviceNumbers {
  std::optional<at::Tensor> scale, left_out;  // torch divides by its scale
  at::Tensor count;                           // updates made, this one included
};

DeviceNumbers numbers_for(const UpdateSettings& settings, const TorchScale& by, int64_t step, const at::Tensor& like) {
  const auto number = [&](double value) { return at::scalar_tensor(value, like.options().dtype(at::kFloat)); };
  const auto* const adam = std::get_if<AdamSettings>(&settings);
  // After infinitely many steps there is no bias left to correct.
  const bool corrects = adam == nullptr || adam->bias_correction;
  DeviceNumbers out;
  out.count = number(corrects ? static_cast<double>(step) : std::numeric_limits<double>::infinity());
  if (by.num_left_out.defined()) out.count = out.count - by.num_left_out;
  if (by.left_out.defined()) out.left_out = by.left_out;
  if (by.tensor.defined()) {
    out.scale = by.tensor.reciprocal();
  } else if (by.value != 1) {
    out.scale = number(1 / by.value);
  }
  return out;
}

struct TorchStep {
  SliceLists& lists;
  std::span<SliceState> slices;
  const TorchScale& by;
  const DeviceNumbers& there;
  int64_t step;
  const WholeParameters& whole;

  void operator()(const AdamSettings& s) const {
    const std::vector<at::Tensor> steps(lists.params.size(), there.count);
    const auto fused = [&](auto&& kernel) {
      kernel(lists.params, lists.grads, lists.momenta, lists.variances, at::TensorList{}, steps, s.lr, s.beta1, s.beta2,
             s.weight_decay, s.eps, /*amsgrad=*/false, /*maximize=*/false, there.scale, there.left_out);
    };
    if (s.decoupled) return fused([](auto&&... all) { at::_fused_adamw_(all...); });
    fused([](auto&&... all) { at::_fused_adam_(all...); });
  }

  void operator()(const SgdSettings& s) const {
    at::_fused_sgd_(lists.params, lists.grads, lists.momenta, s.weight_decay, s.momentum, s.lr, s.dampening, s.nesterov,
                    /*maximize=*/false, /*is_first_step=*/step == 1, there.scale, there.left_out);
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

// Gradients that have to be widened, and copies of what was just written, go through the device's cache in blocks of this
// many elements; at once they would take a third of the optimizer's own memory.
constexpr int64_t kBlock = int64_t{8} << 20;

bool is_plain(const SliceState& state) {
  return state.slice.grad.scalar_type() == at::kFloat && !state.slice.copy.defined();
}

at::Tensor part_of(const at::Tensor& tensor, int64_t first, int64_t count) {
  return tensor.defined() ? tensor.narrow(0, first, count) : tensor;
}

SliceState part_of(const SliceState& state, int64_t first) {
  const int64_t count = std::min(kBlock, state.slice.param.numel() - first);
  const auto part = [&](const at::Tensor& tensor) { return part_of(tensor, first, count); };
  return {.slice = {.name = state.slice.name,
                    .param = part(state.slice.param),
                    .grad = part(state.slice.grad),
                    .copy = part(state.slice.copy),
                    .since = state.slice.since},
          .momentum = part(state.momentum),
          .variance = part(state.variance)};
}

// Lamb looks at whole parameters and has blocks of its own.
std::vector<std::vector<SliceState>> batches_of(const UpdateSettings& settings, std::span<SliceState> slices) {
  std::vector<std::vector<SliceState>> out;
  if (std::holds_alternative<LambSettings>(settings) || std::ranges::all_of(slices, is_plain)) {
    return {{slices.begin(), slices.end()}};
  }
  for (const SliceState& state : slices) {
    for (int64_t first = 0; first < state.slice.param.numel(); first += kBlock) out.push_back({part_of(state, first)});
  }
  return out;
}

// How many of them, from the first on, joined together.
size_t num_of_one_age(std::span<const SliceState> slices) {
  size_t count = 1;
  while (count < slices.size() && slices[count].slice.since == slices[0].slice.since) ++count;
  return count;
}

// `step` is that of all slices, but for Lamb, which looks for itself.
void step_together(const UpdateSettings& settings, std::span<SliceState> slices, const TorchScale& by, int64_t step,
                   const WholeParameters& whole) {
  if (step_with_device_kernels(settings, slices, by, step)) return;
  const DeviceNumbers there = numbers_for(settings, by, step, slices.front().slice.param);
  for (std::vector<SliceState>& batch : batches_of(settings, slices)) {
    SliceLists lists = slice_lists(batch);
    std::visit(TorchStep{lists, batch, by, there, step, whole}, settings);
    for (const SliceState& state : batch) {
      if (state.slice.copy.defined()) state.slice.copy.copy_(state.slice.param);
    }
  }
}

}  // namespace

void step_with_torch(const UpdateSettings& settings, std::span<SliceState> slices, const TorchScale& by, int64_t step,
                     const WholeParameters& whole) {
  if (slices.empty()) return;
  if (std::holds_alternative<LambSettings>(settings)) return step_together(settings, slices, by, step, whole);
  while (!slices.empty()) {
    const std::span<SliceState> some = slices.first(num_of_one_age(slices));
    step_together(settings, some, by, own_step(step, some.front()), whole);
    slices = slices.subspan(some.size());
  }
}

at::Tensor sum_of_squares_there(at::TensorList grads) {
  at::Tensor total = sum_with_device_kernels(grads);
  if (total.defined()) return total;
  total = at::zeros({}, grads.front().options().dtype(at::kDouble));
  // In fp32, which torch sums 16-bit numbers in without a copy of them.
  for (const at::Tensor& grad : grads) {
    total += at::linalg_vector_norm(grad, 2, at::OptionalIntArrayRef(), false, at::kFloat).to(at::kDouble).square();
  }
  return total;
}

}  // namespace weft::optim
