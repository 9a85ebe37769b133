#include "weft/memory/flat_buckets.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "weft/base/check.h"

namespace weft::memory {

at::ScalarType scalar_type(plan::Dtype dtype) {
  switch (dtype) {
    case plan::Dtype::kFp16: return at::kHalf;
    case plan::Dtype::kBf16: return at::kBFloat16;
    case plan::Dtype::kFp32: return at::kFloat;
    case plan::Dtype::kFp64: return at::kDouble;
  }
  WEFT_CHECK(!"a dtype");
}

at::Tensor slice_of(const at::Tensor& bucket, int rank, int world) {
  const int64_t size = bucket.numel() / world;
  return bucket.narrow(0, rank * size, size);
}

FlatBuckets::FlatBuckets(const plan::Plan& plan, std::vector<at::Tensor> parameters, const FlatOptions& options)
    : layout_(plan.layout), model_(std::move(parameters)) {
  WEFT_CHECK_EQ(static_cast<int>(model_.size()), plan.table.size());
  for (const auto& parameter : plan.table.all()) shapes_.push_back(parameter.shape);
  for (const auto& bucket : layout_.gradient_buckets()) {
    const auto device = model_[static_cast<size_t>(bucket.places.front().parameter)].device();
    const auto own_type = at::TensorOptions().dtype(scalar_type(bucket.dtype)).device(device);
    parameters_.push_back(options.allocate_parameters
                              ? options.allocate_parameters(bucket.num_elements, scalar_type(bucket.dtype))
                              : at::zeros({bucket.num_elements}, own_type));
    gradients_.push_back(
        options.allocate_gradients(bucket.num_elements, scalar_type(gradient_dtype(plan.options, bucket))));
  }
}

at::Tensor FlatBuckets::view(const at::Tensor& flat, int parameter) const {
  const auto& place = layout_.place(parameter);
  return flat.narrow(0, place.begin, place.num_elements).view(shapes_[static_cast<size_t>(parameter)]);
}

at::Tensor FlatBuckets::parameter_view(int parameter) const {
  return view(parameters(layout_.home(parameter).bucket), parameter);
}

at::Tensor FlatBuckets::gradient_view(int parameter) const {
  return view(gradients(layout_.home(parameter).bucket), parameter);
}

at::Tensor& FlatBuckets::model_gradient(int parameter) { return model_[static_cast<size_t>(parameter)].mutable_grad(); }

void FlatBuckets::lay_in() {
  const at::NoGradGuard no_grad;
  for (const auto& bucket : layout_.gradient_buckets()) {
    for (const auto& place : bucket.places) {
      auto& parameter = model_[static_cast<size_t>(place.parameter)];
      const at::Tensor inside = parameter_view(place.parameter);
      inside.copy_(parameter);
      parameter.set_data(inside);
    }
  }
}

// By address, without making a view: this is asked for every parameter in every backward.
bool FlatBuckets::lies_in(const at::Tensor& tensor, const std::vector<at::Tensor>& flats, int parameter) const {
  const auto& place = layout_.place(parameter);
  if (place.num_elements == 0) return tensor.defined();
  if (!tensor.defined() || tensor.is_sparse() || !tensor.is_contiguous()) return false;
  const auto& flat = flats[static_cast<size_t>(layout_.home(parameter).bucket)];
  const auto* const inside = static_cast<const char*>(flat.const_data_ptr()) + place.begin * flat.element_size();
  return tensor.const_data_ptr() == inside;
}

bool FlatBuckets::holds_parameter(int parameter) const {
  return lies_in(model_[static_cast<size_t>(parameter)], parameters_, parameter);
}

bool FlatBuckets::is_in_place(int parameter) const {
  return lies_in(model_[static_cast<size_t>(parameter)].grad(), gradients_, parameter);
}

FlatBuckets::Attached FlatBuckets::attach_gradient(int parameter) {
  if (is_in_place(parameter)) return Attached::kBefore;
  const at::NoGradGuard no_grad;
  const at::Tensor inside = gradient_view(parameter);
  auto& own = model_gradient(parameter);
  const at::Tensor came = std::exchange(own, inside);
  if (!came.defined()) {
    inside.zero_();
    return Attached::kAbsent;
  }
  inside.copy_(came.is_sparse() ? came.to_dense() : came);
  return came.is_sparse() ? Attached::kSparse : Attached::kNow;
}

void FlatBuckets::attach_present_gradients() {
  for (const auto& bucket : layout_.gradient_buckets()) {
    for (const auto& place : bucket.places) {
      if (model_gradient(place.parameter).defined()) attach_gradient(place.parameter);
    }
  }
}

void FlatBuckets::forget_gradients() {
  for (const auto& bucket : layout_.gradient_buckets()) {
    for (const auto& place : bucket.places) model_gradient(place.parameter).reset();
  }
}

void FlatBuckets::pack_gradients(int bucket) {
  const at::NoGradGuard no_grad;
  for (const auto& place : layout_.bucket(bucket).places) {
    const at::Tensor inside = gradient_view(place.parameter);
    const at::Tensor& own = model_gradient(place.parameter);
    if (!own.defined()) {
      inside.zero_();
    } else {
      inside.copy_(own.is_sparse() ? own.to_dense() : own);
    }
  }
}

void FlatBuckets::unpack_gradients(int bucket) {
  const at::NoGradGuard no_grad;
  for (const auto& place : layout_.bucket(bucket).places) {
    auto& own = model_gradient(place.parameter);
    if (own.defined() && !own.is_sparse()) own.copy_(gradient_view(place.parameter));
  }
}

}  // namespace weft::memory
