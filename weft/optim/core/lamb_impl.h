// Lamb's two loops; the rules of kernels_impl.h hold here too.
#pragma once

#include "weft/optim/core/kernels_impl.h"

namespace weft::optim::detail {

WEFT_INLINE float lamb_direction(const LambFactors& f, float p, float m, float v) {
  const float divisor = f.eps_inside_sqrt ? __builtin_sqrtf(v + f.eps) : __builtin_sqrtf(v) + f.eps;
  return __builtin_fmaf(f.weight_decay, p, m / divisor);
}

WEFT_INLINE void lamb_moments(const LambFactors& factors, const float* __restrict param, const float* __restrict grads,
                              float* __restrict momentum, float* __restrict variance, float* __restrict direction,
                              size_t count) {
  const LambFactors f = factors;
  for (size_t i = 0; i < count; ++i) {
    const float m = lerp(momentum[i], grads[i], f.from_grad);
    const float v = __builtin_fmaf(f.from_square * grads[i], grads[i], variance[i] * f.keep_variance);
    momentum[i] = m;
    variance[i] = v;
    direction[i] = lamb_direction(f, param[i], m, v);
  }
}

WEFT_INLINE void lamb_move(const LambFactors& factors, float rate, float* __restrict param,
                           const float* __restrict momentum, const float* __restrict variance, size_t count) {
  const LambFactors f = factors;
  for (size_t i = 0; i < count; ++i) {
    param[i] = __builtin_fmaf(-rate, lamb_direction(f, param[i], momentum[i], variance[i]), param[i]);
  }
}

WEFT_INLINE void lamb_directions_all(const LambFactors& factors, const Slice& slice, float* direction) {
  float buffer[kUpdateBlock];
  for (size_t first = 0; first < slice.count; first += kUpdateBlock) {
    const size_t rest = slice.count - first;
    const size_t count = rest < kUpdateBlock ? rest : kUpdateBlock;
    lamb_moments(factors, floats_at(slice.param, first), block_gradients(slice, first, count, buffer),
                 floats_at(slice.momentum, first), floats_at(slice.variance, first), direction + first, count);
  }
}

WEFT_INLINE void lamb_apply_all(const LambFactors& factors, float rate, const Slice& slice) {
  for (size_t first = 0; first < slice.count; first += kUpdateBlock) {
    const size_t rest = slice.count - first;
    const size_t count = rest < kUpdateBlock ? rest : kUpdateBlock;
    float* const param = floats_at(slice.param, first);
    lamb_move(factors, rate, param, floats_at(slice.momentum, first), floats_at(slice.variance, first), count);
    if (slice.copy != nullptr) narrow(slice.copy, slice.copy_type, first, param, count);
  }
}

}  // namespace weft::optim::detail
