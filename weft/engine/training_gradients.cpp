// Gradients of a step under way as a checkpoint sees them: sums that all ranks have added to, shared out as the optimizer's state is, and
// what a rank has added up alone.
#include <c10/core/GradMode.h>

#include "weft/checkpoint/state_names.h"
#include "weft/engine/training.h"

namespace weft::engine {

std::vector<checkpoint::LiveSlice> Training::summed_gradients(StateOf of) {
  std::vector<checkpoint::LiveSlice> out;
  if (!adds_up() || !has_reduced_) return out;
  const at::NoGradGuard no_grad;
  for (int bucket = 0; bucket < buckets_->size(); ++bucket)
    add_slices(out, std::string(checkpoint::kGradPrefix), bucket, {reducer_->result(bucket)}, of);
  return out;
}

NamedTensors Training::local_gradients() const {
  const at::NoGradGuard no_grad;
  NamedTensors out;
  for (const int number : plan_->table.trainable()) {
    const at::Tensor& gradient = buckets_->model_parameter(number).grad();
    if (!gradient.defined() || gradient.numel() == 0) continue;
    out.emplace_back(plan_->table[number].name, gradient.is_sparse() ? gradient.to_dense() : gradient);
  }
  return out;
}

// Every micro-step weighs one part in accumulation_steps: the same part of another division weighs the same.
int64_t Training::done_here(const SavedNumbers& saved) const {
  const int64_t scaled = saved.in_step * accumulation_steps();
  return scaled % saved.accumulation_steps == 0 ? scaled / saved.accumulation_steps : 0;
}

std::vector<checkpoint::LiveSlice> Training::take_summed_gradients() {
  has_reduced_ = true;
  reducer_->go_on_from_results();
  for (int bucket = 0; bucket < buckets_->size(); ++bucket) reducer_->result(bucket).zero_();
  return summed_gradients(StateOf::kOwn);
}

void Training::set_local_gradient(int number, const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  if (reducer_->keeps_in_buckets()) {
    buckets_->attach_gradient(number);
    buckets_->gradient_view(number).copy_(value);
    return;
  }
  // As autograd has it, or wider, as it is kept inside a no_sync().
  const at::Tensor& parameter = buckets_->model_parameter(number);
  const bool is_as_it_came = value.scalar_type() == parameter.scalar_type();
  const auto type = is_as_it_came ? value.scalar_type() : buckets_->gradient_view(number).scalar_type();
  parameter.mutable_grad() = value.to(at::TensorOptions().dtype(type).device(device_), /*non_blocking=*/false,
                                      /*copy=*/true);
}

}  // namespace weft::engine
