// The global L2 norm of the gradients, and what clipping makes of it.
//
// On the CPU sums are taken parameter by parameter in the order of registration: the bits do not depend on buckets, on their
// order or on threads. On a device torch adds, bucket by bucket, and nobody waits for the result. Any thread, one at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

#include "weft/memory/flat_buckets.h"

namespace weft::engine {

// Known, or still being computed by a device.
class GradientNorm {
 public:
  GradientNorm() = default;
  explicit GradientNorm(double value) : value_(value) {}
  explicit GradientNorm(at::Tensor on_device) : on_device_(std::move(on_device)) {}

  // Waits for the device, once.
  double value() const;
  // One double there; undefined where the norm is known here.
  const at::Tensor& on_device() const { return on_device_; }

 private:
  mutable std::optional<double> value_;
  at::Tensor on_device_;
};

GradientNorm global_norm(const memory::FlatBuckets& buckets, const plan::ParameterTable& table);

// What gradients are multiplied by so that their norm is at most `limit`; 1 where it is already, or limit is 0. torch's
// clip_grad_norm_ has the same 1e-6.
double clip_factor(double norm, double limit);
// The same on the device, in fp32; not finite where the norm is not.
at::Tensor clip_factor(const at::Tensor& norm, double limit);

}  // namespace weft::engine
