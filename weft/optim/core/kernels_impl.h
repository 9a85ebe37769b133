// The loops behind kernels.h. Everything is inlined into the functions of kernels.cpp (any machine) and kernels_x86.cpp
// (compiled for more): no function here may be emitted by itself, else a linker could keep the copy with the wrong
// instructions. Built with -O3 and without contraction; see CMakeLists.txt.
#pragma once

#include "weft/base/half.h"
#include "weft/optim/core/kernels.h"

#define WEFT_INLINE [[gnu::always_inline]] inline

namespace weft::optim::detail {

// A block of widened gradients stays in the first-level cache together with the state it updates.
constexpr size_t kUpdateBlock = 1024;

WEFT_INLINE void widen(float* __restrict into, const void* grad, Element type, float scale, size_t first,
                       size_t count) {
  const auto* const floats = static_cast<const float*>(grad) + first;
  const auto* const halves = static_cast<const uint16_t*>(grad) + first;
  switch (type) {
    case Element::kFloat32:
      for (size_t i = 0; i < count; ++i) into[i] = floats[i] * scale;
      return;
    case Element::kBFloat16:
      for (size_t i = 0; i < count; ++i) into[i] = float_of_bfloat16(halves[i]) * scale;
      return;
    case Element::kFloat16:
      for (size_t i = 0; i < count; ++i) into[i] = float_of_half(halves[i]) * scale;
      return;
  }
}

WEFT_INLINE void narrow(void* copy, Element type, size_t first, const float* __restrict from, size_t count) {
  auto* const __restrict floats = static_cast<float*>(copy) + first;
  auto* const __restrict halves = static_cast<uint16_t*>(copy) + first;
  switch (type) {
    case Element::kFloat32:
      for (size_t i = 0; i < count; ++i) floats[i] = from[i];
      return;
    case Element::kBFloat16:
      for (size_t i = 0; i < count; ++i) halves[i] = bfloat16_of_float(from[i]);
      return;
    case Element::kFloat16:
      for (size_t i = 0; i < count; ++i) halves[i] = half_of_float(from[i]);
      return;
  }
}

// The gradients of a block, widened and scaled; where they lie if nothing has to be done to them.
WEFT_INLINE const float* block_gradients(const Slice& slice, size_t first, size_t count, float* buffer) {
  if (slice.grad_type == Element::kFloat32 && slice.grad_scale == 1) {
    return static_cast<const float*>(slice.grad) + first;
  }
  widen(buffer, slice.grad, slice.grad_type, slice.grad_scale, first, count);
  return buffer;
}

// A part of a slice in fp32. State that the optimizer has not may point anywhere.
struct Block {
  float *param, *momentum, *variance;
};

// Requires: fp32 there.
WEFT_INLINE float* floats_at(void* data, size_t first) {
  return data == nullptr ? nullptr : static_cast<float*>(data) + first;
}

// torch's lerp: from the nearer end, one fused operation.
WEFT_INLINE float lerp(float from, float to, float weight) {
  const bool near_from = weight < 0.5F;
  return __builtin_fmaf(near_from ? weight : weight - 1, to - from, near_from ? from : to);
}

template <bool Decoupled>
WEFT_INLINE void adam_block(const AdamFactors& factors, float* __restrict param, const float* __restrict grads,
                            float* __restrict momentum, float* __restrict variance, size_t count) {
  const AdamFactors f = factors;
  for (size_t i = 0; i < count; ++i) {
    const float p = Decoupled ? param[i] * f.shrink : param[i];
    const float g = Decoupled ? grads[i] : __builtin_fmaf(f.weight_decay, p, grads[i]);
    const float m = lerp(momentum[i], g, f.from_grad);
    const float v = __builtin_fmaf(f.from_square * g, g, variance[i] * f.keep_variance);
    momentum[i] = m;
    variance[i] = v;
    param[i] = p + f.step_size * m / (__builtin_sqrtf(v) / f.correction + f.eps);
  }
}

struct Adam {
  const AdamFactors& factors;
  WEFT_INLINE void operator()(const Block& b, const float* grads, size_t count) const {
    if (factors.decoupled) {
      adam_block<true>(factors, b.param, grads, b.momentum, b.variance, count);
    } else {
      adam_block<false>(factors, b.param, grads, b.momentum, b.variance, count);
    }
  }
};

WEFT_INLINE void sgd_plain(const SgdFactors& f, float* __restrict param, const float* __restrict grads, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float g = f.weight_decay == 0 ? grads[i] : __builtin_fmaf(f.weight_decay, param[i], grads[i]);
    param[i] = __builtin_fmaf(-f.lr, g, param[i]);
  }
}

WEFT_INLINE void sgd_momentum(const SgdFactors& factors, float* __restrict param, const float* __restrict grads,
                              float* __restrict momentum, size_t count) {
  const SgdFactors f = factors;
  for (size_t i = 0; i < count; ++i) {
    const float g = f.weight_decay == 0 ? grads[i] : __builtin_fmaf(f.weight_decay, param[i], grads[i]);
    const float m = f.first ? g : __builtin_fmaf(f.from_grad, g, momentum[i] * f.momentum);
    const float direction = f.nesterov ? __builtin_fmaf(f.momentum, m, g) : m;
    momentum[i] = m;
    param[i] = __builtin_fmaf(-f.lr, direction, param[i]);
  }
}

struct Sgd {
  const SgdFactors& factors;
  WEFT_INLINE void operator()(const Block& b, const float* grads, size_t count) const {
    if (factors.momentum == 0) return sgd_plain(factors, b.param, grads, count);
    sgd_momentum(factors, b.param, grads, b.momentum, count);
  }
};

WEFT_INLINE void lion_block(const LionFactors& factors, float* __restrict param, const float* __restrict grads,
                            float* __restrict momentum, size_t count) {
  const LionFactors f = factors;
  for (size_t i = 0; i < count; ++i) {
    const float update = lerp(momentum[i], grads[i], f.update_from_grad);
    const float sign = (update > 0 ? 1.0F : 0.0F) - (update < 0 ? 1.0F : 0.0F);
    momentum[i] = lerp(momentum[i], grads[i], f.keep_from_grad);
    param[i] = __builtin_fmaf(-f.lr, sign, param[i] * f.shrink);
  }
}

struct Lion {
  const LionFactors& factors;
  WEFT_INLINE void operator()(const Block& b, const float* grads, size_t count) const {
    lion_block(factors, b.param, grads, b.momentum, count);
  }
};

WEFT_INLINE void adagrad_block(const AdagradFactors& factors, float* __restrict param, const float* __restrict grads,
                               float* __restrict sum, size_t count) {
  const AdagradFactors f = factors;
  for (size_t i = 0; i < count; ++i) {
    const float g = f.weight_decay == 0 ? grads[i] : __builtin_fmaf(f.weight_decay, param[i], grads[i]);
    const float s = __builtin_fmaf(g, g, sum[i]);
    sum[i] = s;
    param[i] = param[i] + f.step_size * g / (__builtin_sqrtf(s) + f.eps);
  }
}

struct Adagrad {
  const AdagradFactors& factors;
  WEFT_INLINE void operator()(const Block& b, const float* grads, size_t count) const {
    adagrad_block(factors, b.param, grads, b.variance, count);
  }
};

template <typename Update>
WEFT_INLINE void update_wide(const Update& update, const Slice& slice) {
  float buffer[kUpdateBlock];
  for (size_t first = 0; first < slice.count; first += kUpdateBlock) {
    const size_t rest = slice.count - first;
    const size_t count = rest < kUpdateBlock ? rest : kUpdateBlock;
    const Block block = {floats_at(slice.param, first), floats_at(slice.momentum, first),
                         floats_at(slice.variance, first)};
    update(block, block_gradients(slice, first, count, buffer), count);
    if (slice.copy != nullptr) narrow(slice.copy, slice.copy_type, first, block.param, count);
  }
}

// A block is widened, updated and rounded while it is in the first-level cache.
template <typename Update>
WEFT_INLINE void update_narrow(const Update& update, const Slice& slice) {
  // State that the optimizer has not is zeros.
  float buffer[kUpdateBlock], param[kUpdateBlock], momentum[kUpdateBlock] = {}, variance[kUpdateBlock] = {};
  for (size_t first = 0; first < slice.count; first += kUpdateBlock) {
    const size_t rest = slice.count - first;
    const size_t count = rest < kUpdateBlock ? rest : kUpdateBlock;
    widen(param, slice.param, slice.param_type, 1, first, count);
    if (slice.momentum != nullptr) widen(momentum, slice.momentum, slice.state_type, 1, first, count);
    if (slice.variance != nullptr) widen(variance, slice.variance, slice.state_type, 1, first, count);
    update({param, momentum, variance}, block_gradients(slice, first, count, buffer), count);
    narrow(slice.param, slice.param_type, first, param, count);
    if (slice.momentum != nullptr) narrow(slice.momentum, slice.state_type, first, momentum, count);
    if (slice.variance != nullptr) narrow(slice.variance, slice.state_type, first, variance, count);
    if (slice.copy != nullptr) narrow(slice.copy, slice.copy_type, first, param, count);
  }
}

template <typename Update>
WEFT_INLINE void update_all(const Update& update, const Slice& slice) {
  const bool is_wide = slice.param_type == Element::kFloat32 && slice.state_type == Element::kFloat32;
  if (is_wide) return update_wide(update, slice);
  update_narrow(update, slice);
}

// --- Sums of squares -------------------------------------------------------------------------------------------------

constexpr size_t kLanes = 16;

// The square of an fp32 is exact in double, so that fusing it with the addition would change nothing.
WEFT_INLINE double block_sum(const float* __restrict x, size_t count) {
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(x[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (size_t lane = 0; i + lane < count; ++lane) {
    const auto value = static_cast<double>(x[i + lane]);
    lanes[lane] += value * value;
  }
  for (size_t apart = kLanes / 2; apart > 0; apart /= 2) {
    for (size_t lane = 0; lane < apart; ++lane) lanes[lane] += lanes[lane + apart];
  }
  return lanes[0];
}

WEFT_INLINE void sum_all(const void* grad, Element type, size_t count, double* block_sums) {
  constexpr size_t kAtOnce = 4096;
  static_assert(kAtOnce % kSumBlock == 0);
  float buffer[kAtOnce];
  for (size_t first = 0; first < count; first += kAtOnce) {
    const size_t rest = count - first;
    const size_t size = rest < kAtOnce ? rest : kAtOnce;
    const float* x = static_cast<const float*>(grad) + first;
    if (type != Element::kFloat32) {
      widen(buffer, grad, type, 1, first, size);
      x = buffer;
    }
    for (size_t i = 0; i < size; i += kSumBlock) {
      *block_sums++ = block_sum(x + i, size - i < kSumBlock ? size - i : kSumBlock);
    }
  }
}

}  // namespace weft::optim::detail
