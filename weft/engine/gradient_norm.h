// The global L2 norm of the gradients, and what clipping makes of it.
//
// On the CPU blocks of squares are added without rounding: the bits do not depend on buckets, on their order, on threads, or on
// which rank owns what. On a device sums are rounded, and nobody waits for the result. Any thread, one at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

#include "weft/comm/group.h"

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

// `parts` are this rank's: whole buckets, or with `group` its slices of them, and the sum is then over all ranks: a collective.
GradientNorm global_norm(const std::vector<at::Tensor>& parts, comm::Group* group);

// What gradients are multiplied by so that their norm is at most `limit`; 1 where it is already, or limit is 0. torch's
// clip_grad_norm_ has the same 1e-6.
double clip_factor(double norm, double limit);
// The same on the device, in fp32; not finite where the norm is not.
at::Tensor clip_factor(const at::Tensor& norm, double limit);

}  // namespace weft::engine
