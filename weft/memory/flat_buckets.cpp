#include "weft/memory/flat_buckets.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "weft/base/check.h"
#include "weft/memory/loose_storage.h"

namespace weft::memory {
namespace {

// What torch says to whoever wants a pointer.
const std::string kNoGradients = "weft: there are no gradients between step() and the next backward()";

}  // namespace

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
  if (options.num_buffers > 0) measure_rings(plan, options.num_buffers);
  for (const auto& bucket :
       options.with_frozen ? std::span<const plan::Bucket>(layout_.buckets) : layout_.gradient_buckets()) {
    const auto device = model_[static_cast<size_t>(bucket.places.front().parameter)].device();
    const auto own_type = at::TensorOptions().dtype(scalar_type(bucket.dtype)).device(device);
    parameters_.push_back(options.allocate_parameters
                              ? options.allocate_parameters(bucket.num_elements, scalar_type(bucket.dtype))
                              : at::zeros({bucket.num_elements}, own_type));
    if (bucket.frozen) continue;
    gradients_.push_back(next_gradients(bucket, scalar_type(gradient_dtype(plan.options, bucket)), options));
    if (!options.gradients_come_and_go) continue;
    take_memory(storage_of(gradients_.back()), kNoGradients);
    is_away_.push_back(true);
  }
}

void FlatBuckets::measure_rings(const plan::Plan& plan, int num_buffers) {
  std::map<at::ScalarType, std::vector<int64_t>> elements;
  for (const auto& bucket : layout_.gradient_buckets())
    elements[scalar_type(gradient_dtype(plan.options, bucket))].push_back(bucket.num_elements);
  for (const auto& [type, buckets] : elements) rings_[type].elements = plan::buffer_elements(buckets, num_buffers);
}

// The first buckets of a type bring the buffers, long enough for those that follow; the others take turns.
at::Tensor FlatBuckets::next_gradients(const plan::Bucket& bucket, at::ScalarType type, const FlatOptions& options) {
  if (options.num_buffers == 0) {
    buffers_.push_back(num_buffers_++);
    return options.allocate_gradients(bucket.num_elements, type);
  }
  auto& ring = rings_[type];
  if (ring.buffers.size() < ring.elements.size()) {
    const int64_t longest = ring.elements[ring.buffers.size()];
    ring.buffers.emplace_back(num_buffers_++, options.allocate_gradients(longest, type));
  }
  const auto& [number, flat] = ring.buffers[ring.next++ % ring.buffers.size()];
  buffers_.push_back(number);
  return flat.narrow(0, 0, bucket.num_elements);
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

void FlatBuckets::fill() const {
  for (int bucket = 0; bucket < num_with_frozen(); ++bucket) fill(bucket);
}

void FlatBuckets::fill(int bucket) const {
  const at::NoGradGuard no_grad;
  clear_padding(bucket, parameters(bucket));
  for (const auto& place : layout_.bucket(bucket).places)
    parameter_view(place.parameter).copy_(model_parameter(place.parameter));
}

void FlatBuckets::lay_in() {
  for (int bucket = 0; bucket < num_with_frozen(); ++bucket) lay_in(bucket);
}

void FlatBuckets::lay_in(int bucket) {
  const at::NoGradGuard no_grad;
  for (const auto& place : layout_.bucket(bucket).places)
    model_[static_cast<size_t>(place.parameter)].set_data(parameter_view(place.parameter));
}

// Without making a view, or looking at memory: this is asked for every parameter in every backward.
bool FlatBuckets::lies_in(const at::Tensor& tensor, const std::vector<at::Tensor>& flats, int parameter) const {
  const auto& place = layout_.place(parameter);
  if (place.num_elements == 0) return tensor.defined();
  if (!tensor.defined() || tensor.is_sparse() || !tensor.is_contiguous()) return false;
  const auto& flat = flats[static_cast<size_t>(layout_.home(parameter).bucket)];
  return tensor.storage().unsafeGetStorageImpl() == flat.storage().unsafeGetStorageImpl() &&
         tensor.storage_offset() == flat.storage_offset() + place.begin;
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
  need_gradients(layout_.home(parameter).bucket);
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
  for (int bucket = 0; bucket < size(); ++bucket) forget_gradients(bucket);
}

void FlatBuckets::forget_gradients(int bucket) {
  for (const auto& place : layout_.bucket(bucket).places) forget_gradient(place.parameter);
  if (is_away_.empty() || is_away_[static_cast<size_t>(bucket)]) return;
  take_memory(storage_of(gradients(bucket)), kNoGradients);
  is_away_[static_cast<size_t>(bucket)] = true;
}

void FlatBuckets::forget_gradient(int parameter) { model_gradient(parameter).reset(); }

void FlatBuckets::need_gradients(int bucket) {
  if (is_away_.empty() || !is_away_[static_cast<size_t>(bucket)]) return;
  is_away_[static_cast<size_t>(bucket)] = false;
  const at::Tensor& flat = gradients(bucket);
  give_memory(storage_of(flat), at::empty_like(flat));
  clear_padding(bucket, flat);
}

void FlatBuckets::begin_packing(int bucket) {
  const at::NoGradGuard no_grad;
  need_gradients(bucket);
  if (!rings_.empty()) clear_padding(bucket, gradients(bucket));
}

void FlatBuckets::pack_gradient(int parameter) {
  const at::NoGradGuard no_grad;
  const at::Tensor inside = gradient_view(parameter);
  const at::Tensor& own = model_gradient(parameter);
  if (!own.defined()) {
    inside.zero_();
  } else {
    inside.copy_(own.is_sparse() ? own.to_dense() : own);
  }
}

void FlatBuckets::take_back_gradient(int parameter) {
  const at::NoGradGuard no_grad;
  auto& own = model_gradient(parameter);
  own = gradient_view(parameter).to(own.scalar_type(), /*non_blocking=*/false, /*copy=*/true).add_(own);
}

void FlatBuckets::widen_gradient(int parameter) {
  const at::NoGradGuard no_grad;
  auto& own = model_gradient(parameter);
  own = own.to(gradients(layout_.home(parameter).bucket).scalar_type());
}

// Between parameters and behind them lies what another bucket has left, or nothing yet.
void FlatBuckets::clear_padding(int bucket, const at::Tensor& flat) const {
  int64_t end = 0;
  for (const auto& place : layout_.bucket(bucket).places) {
    flat.narrow(0, end, place.begin - end).zero_();
    end = place.end();
  }
  flat.narrow(0, end, flat.numel() - end).zero_();
}

void FlatBuckets::unpack_gradients(int bucket) {
  const at::NoGradGuard no_grad;
  for (const auto& place : layout_.bucket(bucket).places) {
    auto& own = model_gradient(place.parameter);
    if (own.defined() && !own.is_sparse()) own.copy_(gradient_view(place.parameter));
  }
}

}  // namespace weft::memory
