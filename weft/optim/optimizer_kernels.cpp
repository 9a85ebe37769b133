// The CPU: slices through the kernels of optim/core, cut into blocks for torch's threads.
#include <array>
#include <mutex>

#include "weft/base/for_blocks.h"
#include "weft/optim/core/kernels.h"
#include "weft/optim/optimizer_impl.h"

namespace weft::optim {
namespace {

void* data_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.mutable_data_ptr() : nullptr; }

struct KernelStep {
  std::span<SliceState> slices;
  double grad_scale;
  int64_t step;
  const WholeParameters& whole;

  void operator()(const AdamSettings& s) const {
    update(kernels().adam, [&](int64_t own) { return adam_factors(s, own); });
  }
  void operator()(const SgdSettings& s) const {
    update(kernels().sgd, [&](int64_t own) { return sgd_factors(s, own); });
  }
  void operator()(const LionSettings& s) const {
    update(kernels().lion, [&](int64_t) { return lion_factors(s); });
  }
  void operator()(const AdagradSettings& s) const {
    update(kernels().adagrad, [&](int64_t own) { return adagrad_factors(s, own); });
  }
  void operator()(const LambSettings& s) const { lamb_with_kernels(s, slices, grad_scale, step, whole); }

  template <typename Kernel, typename FactorsAt>
  void update(Kernel kernel, FactorsAt factors_at) const {
    for (const SliceState& state : slices) {
      const auto factors = factors_at(own_step(step, state));
      const Slice slice = kernel_slice(state, grad_scale);
      for_blocks(slice.count, kThreadBlock,
                 [&](size_t first, size_t size) { kernel(factors, slice.part(first, size)); });
    }
  }
};

}  // namespace

Slice kernel_slice(const SliceState& state, double grad_scale) {
  const FlatSlice& slice = state.slice;
  Slice out = {.count = static_cast<size_t>(slice.param.numel()),
               .param = slice.param.mutable_data_ptr(),
               .grad = slice.grad.const_data_ptr(),
               .grad_type = element_of(slice.grad),
               .grad_scale = static_cast<float>(grad_scale),
               .momentum = data_of(state.momentum),
               .variance = data_of(state.variance),
               .param_type = element_of(slice.param)};
  if (state.momentum.defined()) out.state_type = element_of(state.momentum);
  if (state.variance.defined()) out.state_type = element_of(state.variance);
  if (slice.copy.defined()) {
    out.copy = slice.copy.mutable_data_ptr();
    out.copy_type = element_of(slice.copy);
  }
  return out;
}

void step_with_kernels(const UpdateSettings& settings, std::span<SliceState> slices, double grad_scale, int64_t step,
                       const WholeParameters& whole) {
  std::visit(KernelStep{slices, grad_scale, step, whole}, settings);
}

ExactSum sum_of_squares(const at::Tensor& grad) {
  const auto count = static_cast<size_t>(grad.numel());
  const auto* const bytes = static_cast<const std::byte*>(grad.const_data_ptr());
  const Element type = element_of(grad);
  static_assert(kThreadBlock % kSumBlock == 0);
  ExactSum total;
  std::mutex mutex;
  for_blocks(count, kThreadBlock, [&](size_t first, size_t size) {
    std::array<double, num_sum_blocks(kThreadBlock)> sums;
    kernels().sums_of_squares(bytes + first * element_bytes(type), type, size, sums.data());
    ExactSum part;
    for (size_t i = 0; i < num_sum_blocks(size); ++i) part.add(sums[i]);
    const std::scoped_lock lock(mutex);
    total.add(part);
  });
  return total;
}

}  // namespace weft::optim
