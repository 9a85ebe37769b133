#include "weft/optim/core/kernels.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "weft/optim/core/kernels_impl.h"
#include "weft/optim/core/kernels_x86_impl.h"
#include "weft/optim/core/lamb_impl.h"

namespace weft::optim {
namespace {

void adam(const AdamFactors& factors, const Slice& slice) { detail::update_all(detail::Adam{factors}, slice); }
void sgd(const SgdFactors& factors, const Slice& slice) { detail::update_all(detail::Sgd{factors}, slice); }
void lion(const LionFactors& factors, const Slice& slice) { detail::update_all(detail::Lion{factors}, slice); }
void adagrad(const AdagradFactors& factors, const Slice& slice) { detail::update_all(detail::Adagrad{factors}, slice); }
void lamb_directions(const LambFactors& factors, const Slice& slice, float* directions) {
  detail::lamb_directions_all(factors, slice, directions);
}
void lamb_apply(const LambFactors& factors, float rate, const Slice& slice) {
  detail::lamb_apply_all(factors, rate, slice);
}
void sums_of_squares(const void* grad, Element type, size_t count, double* block_sums) {
  detail::sum_all(grad, type, count, block_sums);
}

constexpr Kernels kPortable = {"portable", adam, sgd, lion, adagrad, lamb_directions, lamb_apply, sums_of_squares};

std::vector<const Kernels*> found_here() {
  std::vector<const Kernels*> found = {&kPortable};
  for (const Kernels* const more : detail::x86_kernels()) found.push_back(more);
  return found;
}

void* moved(void* data, Element type, size_t first) {
  return data == nullptr ? nullptr : static_cast<std::byte*>(data) + first * element_bytes(type);
}

}  // namespace

size_t element_bytes(Element type) { return type == Element::kFloat32 ? 4 : 2; }

Slice Slice::part(size_t first, size_t size) const {
  Slice out = *this;
  out.count = size;
  out.param = moved(param, param_type, first);
  out.grad = static_cast<const std::byte*>(grad) + first * element_bytes(grad_type);
  out.momentum = moved(momentum, state_type, first);
  out.variance = moved(variance, state_type, first);
  out.copy = moved(copy, copy_type, first);
  return out;
}

AdamFactors adam_factors(const AdamSettings& settings, int64_t step) {
  const auto count = static_cast<double>(step);
  const double first = settings.bias_correction ? 1 - std::pow(settings.beta1, count) : 1;
  const double second = settings.bias_correction ? 1 - std::pow(settings.beta2, count) : 1;
  const double shrink = settings.weight_decay == 0 ? 1 : 1 - settings.lr * settings.weight_decay;
  return {.shrink = static_cast<float>(shrink),
          .weight_decay = static_cast<float>(settings.weight_decay),
          .from_grad = static_cast<float>(1 - settings.beta1),
          .keep_variance = static_cast<float>(settings.beta2),
          .from_square = static_cast<float>(1 - settings.beta2),
          .correction = static_cast<float>(std::sqrt(second)),
          .eps = static_cast<float>(settings.eps),
          .step_size = static_cast<float>(-(settings.lr / first)),
          .decoupled = settings.decoupled || settings.weight_decay == 0};
}

SgdFactors sgd_factors(const SgdSettings& settings, int64_t step) {
  return {.lr = static_cast<float>(settings.lr),
          .momentum = static_cast<float>(settings.momentum),
          .from_grad = static_cast<float>(1 - settings.dampening),
          .weight_decay = static_cast<float>(settings.weight_decay),
          .first = step == 1,
          .nesterov = settings.nesterov};
}

LionFactors lion_factors(const LionSettings& settings) {
  return {.shrink = static_cast<float>(1 - settings.lr * settings.weight_decay),
          .lr = static_cast<float>(settings.lr),
          .update_from_grad = static_cast<float>(1 - settings.beta1),
          .keep_from_grad = static_cast<float>(1 - settings.beta2)};
}

AdagradFactors adagrad_factors(const AdagradSettings& settings, int64_t step) {
  const double lr = settings.lr / (1 + static_cast<double>(step - 1) * settings.lr_decay);
  return {.weight_decay = static_cast<float>(settings.weight_decay),
          .eps = static_cast<float>(settings.eps),
          .step_size = static_cast<float>(-lr)};
}

LambFactors lamb_factors(const LambSettings& settings) {
  return {.from_grad = static_cast<float>(1 - settings.beta1),
          .keep_variance = static_cast<float>(settings.beta2),
          .from_square = static_cast<float>(1 - settings.beta2),
          .eps = static_cast<float>(settings.eps),
          .weight_decay = static_cast<float>(settings.weight_decay),
          .eps_inside_sqrt = settings.eps_inside_sqrt};
}

double lamb_step_size(const LambSettings& settings, int64_t step) {
  if (!settings.bias_correction) return settings.lr;
  const auto count = static_cast<double>(step);
  return settings.lr * std::sqrt(1 - std::pow(settings.beta2, count)) / (1 - std::pow(settings.beta1, count));
}

double lamb_trust_ratio(const LambSettings& settings, double parameter_squares, double direction_squares) {
  if (parameter_squares == 0 || direction_squares == 0) return 1;
  const double ratio = std::sqrt(parameter_squares) / std::sqrt(direction_squares);
  return std::clamp(ratio, settings.min_coeff, settings.max_coeff);  // what is not a number stays so
}

std::span<const Kernels* const> all_kernels() {
  static const std::vector<const Kernels*> kAll = found_here();
  return kAll;
}

const Kernels& kernels() { return *all_kernels().back(); }

}  // namespace weft::optim
