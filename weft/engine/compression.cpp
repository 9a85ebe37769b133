#include "weft/engine/compression.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "weft/base/check.h"
#include "weft/engine/int8_blocks.h"
#include "weft/plan/plan.h"

namespace weft::engine {
namespace {

std::byte* bytes_in(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.mutable_data_ptr()); }

std::span<float> floats_in(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

}  // namespace

Compression::Compression(int world, int num_buckets) : world_(world), buckets_(static_cast<size_t>(num_buckets)) {}

// Made when it is first needed: the first layout goes before anything is sent.
Compression::Bucket& Compression::bucket_for(int bucket, int64_t num_elements) {
  Bucket& out = buckets_[static_cast<size_t>(bucket)];
  if (out.errors.defined()) return out;
  const int64_t num_bytes = world_ * plan::compressed_bytes(num_elements / world_);
  out.errors = at::zeros({num_elements}, at::kFloat);
  out.sent = at::empty({num_bytes}, at::kByte);
  out.received = at::empty({num_bytes}, at::kByte);
  return out;
}

at::Tensor Compression::in_fp32(int64_t num_elements) {
  if (!wide_.defined() || wide_.numel() < num_elements) wide_ = at::empty({num_elements}, at::kFloat);
  return wide_.narrow(0, 0, num_elements);
}

comm::Collective Compression::pack(int bucket, const at::Tensor& gradients) {
  const int64_t slice = gradients.numel() / world_;
  Bucket& kept = bucket_for(bucket, gradients.numel());
  WEFT_CHECK_EQ(kept.errors.numel(), gradients.numel());
  const bool is_wide = gradients.scalar_type() == at::kFloat;
  const at::Tensor wide = is_wide ? gradients : in_fp32(gradients.numel()).copy_(gradients);
  for (int64_t rank = 0; rank < world_; ++rank) {
    compress(floats_in(wide.narrow(0, rank * slice, slice)), floats_in(kept.errors.narrow(0, rank * slice, slice)),
             bytes_in(kept.sent) + rank * plan::compressed_bytes(slice));
  }
  return comm::all_to_all(kept.sent, kept.received);
}

void Compression::unpack(int bucket, const at::Tensor& slice, comm::ReduceOp op) {
  const at::Tensor& received = buckets_[static_cast<size_t>(bucket)].received;
  const bool is_wide = slice.scalar_type() == at::kFloat;
  const at::Tensor sum = is_wide ? slice : in_fp32(slice.numel());
  sum.zero_();
  for (int64_t rank = 0; rank < world_; ++rank) {
    add_compressed(bytes_in(received) + rank * plan::compressed_bytes(slice.numel()), floats_in(sum));
  }
  if (op == comm::ReduceOp::kMean) sum.div_(world_);
  if (!is_wide) slice.copy_(sum);
}

}  // namespace weft::engine
