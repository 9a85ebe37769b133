#include "weft/optim/left_out.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace weft::optim {

void LeftOut::count(const at::Tensor& factor) {
  flag_ = factor.isfinite().logical_not().to(at::kFloat);
  if (!total_.defined()) {
    total_ = at::zeros_like(flag_);
    here_ = at::empty(flag_.sizes(), at::TensorOptions().dtype(at::kFloat).pinned_memory(flag_.is_cuda()));
    if (!flag_.is_cpu()) copied_.emplace(flag_.device().type());
  }
  total_.add_(flag_);
  here_.copy_(total_, /*non_blocking=*/true);
  if (copied_) copied_->record(c10::impl::VirtualGuardImpl(flag_.device().type()).getStream(flag_.device()));
}

int64_t LeftOut::known() const {
  if (!here_.defined()) return 0;
  if (copied_) copied_->synchronize();
  return static_cast<int64_t>(*here_.const_data_ptr<float>());
}

}  // namespace weft::optim
