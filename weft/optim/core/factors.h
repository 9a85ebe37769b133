// Numbers of an update that are the same for every element. Kernels on the CPU (kernels.h) take them, and those on a device, whose
// compiler is given this text as it stands (../device_kernels.cu): nothing may be included here. Plain values.
#pragma once

namespace weft::optim {

// What stays the same over a whole step, computed once in double and rounded to fp32 at the end, as torch does.
struct AdamFactors {
  float shrink, weight_decay, from_grad, keep_variance, from_square, correction, eps, step_size;
  bool decoupled;
};
struct SgdFactors {
  float lr, momentum, from_grad, weight_decay;
  bool first, nesterov;
};
struct LionFactors {
  float shrink, lr, update_from_grad, keep_from_grad;
};
struct AdagradFactors {
  float weight_decay, eps, step_size;
};

}  // namespace weft::optim
