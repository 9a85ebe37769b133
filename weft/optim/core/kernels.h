// One optimizer update over a flat slice, in one pass over memory: gradients are widened and scaled, the state and the
// parameters updated in place, and a 16-bit copy of the parameters written on the way where one is asked for. Everything is
// computed in fp32; parameters and state that are kept in 16 bits are rounded once, at the end.
//
// There is one loop for each optimizer, compiled for several instruction sets; the best that the machine has is chosen
// at run time. Every one of them gives the same bits (NaN is NaN everywhere, its payload is not promised): an element
// depends on nothing but its own values, each operation is rounded once, and where two are fused the source says so. So
// a slice can be cut anywhere and shared between threads. The order of operations is that of torch.optim, fused for
// Adam and Adagrad (docs/optimizers.md).
//
// The caller owns all memory. Pointers are aligned to their element, nothing overlaps. Threads: pure functions.
// Failure: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "weft/optim/core/factors.h"

namespace weft::optim {

enum class Element : uint8_t { kFloat32, kBFloat16, kFloat16 };

size_t element_bytes(Element type);

struct Slice {
  size_t count = 0;
  void* param = nullptr;
  const void* grad = nullptr;
  Element grad_type = Element::kFloat32;
  float grad_scale = 1;      // each gradient is multiplied by it first: inverse loss scale times clip factor
  void* momentum = nullptr;  // Adam, Lamb and Lion: exp_avg; SGD: momentum_buffer, unused without momentum
  void* variance = nullptr;  // Adam and Lamb: exp_avg_sq; Adagrad: sum
  void* copy = nullptr;      // the new parameters once more, in this type; none: no copy
  Element copy_type = Element::kBFloat16;
  Element param_type = Element::kFloat32, state_type = Element::kFloat32;  // Lamb knows no other

  // Elements [first, first + size). Requires: within this slice.
  Slice part(size_t first, size_t size) const;
};

struct AdamSettings {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = true;  // AdamW: decay shrinks the parameters; else it is added to the gradient
  bool bias_correction = true;
};
struct SgdSettings {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
struct LionSettings {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, weight_decay = 0;
};
struct AdagradSettings {
  double lr = 1e-2, lr_decay = 0, eps = 1e-10, weight_decay = 0;
  double initial_sum = 0;  // of the state before the first step
};
struct LambSettings {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  double max_coeff = 10, min_coeff = 0.01;  // bounds of the trust ratio
  bool eps_inside_sqrt = false;
  bool bias_correction = true;
};

struct LambFactors {
  float from_grad, keep_variance, from_square, eps, weight_decay;
  bool eps_inside_sqrt;
};

// `step` counts from 1: the update that is being made.
AdamFactors adam_factors(const AdamSettings& settings, int64_t step);
SgdFactors sgd_factors(const SgdSettings& settings, int64_t step);
LionFactors lion_factors(const LionSettings& settings);
AdagradFactors adagrad_factors(const AdagradSettings& settings, int64_t step);
LambFactors lamb_factors(const LambSettings& settings);
// What a direction of Lamb is multiplied by, the trust ratio left out.
double lamb_step_size(const LambSettings& settings, int64_t step);
// Of a whole parameter, from the sums of the squares of its elements and of its directions. 1 where one of them is 0.
double lamb_trust_ratio(const LambSettings& settings, double parameter_squares, double direction_squares);

// Sums of squares are taken in blocks of this many elements, in double. Within a block element i goes to lane i mod 16
// in rising order; the lanes are then added pairwise, 8 apart, then 4, 2, 1. The result depends on nothing else. As long as the
// borders of slices: whoever owns an element of a block owns all of it.
constexpr size_t kSumBlock = 32;
constexpr size_t num_sum_blocks(size_t count) { return (count + kSumBlock - 1) / kSumBlock; }

struct Kernels {
  std::string_view name;  // "portable", "avx2", "avx512"
  void (*adam)(const AdamFactors&, const Slice&);
  void (*sgd)(const SgdFactors&, const Slice&);
  void (*lion)(const LionFactors&, const Slice&);
  void (*adagrad)(const AdagradFactors&, const Slice&);
  // Lamb in two passes, since its rate depends on a whole parameter: the moments, and the direction of each element, of which
  // there are slice.count; then the parameters, from the moments the first pass left.
  void (*lamb_directions)(const LambFactors&, const Slice&, float* directions);
  void (*lamb_apply)(const LambFactors&, float rate, const Slice&);
  // One sum a block, num_sum_blocks(count) of them. A gradient that is not finite gives a sum that is not.
  void (*sums_of_squares)(const void* grad, Element type, size_t count, double* block_sums);
};

// The best for this machine.
const Kernels& kernels();
// All that this machine can run, the portable ones first.
std::span<const Kernels* const> all_kernels();

}  // namespace weft::optim
