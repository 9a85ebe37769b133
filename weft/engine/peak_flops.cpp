#include "weft/engine/peak_flops.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "weft/base/clock.h"

namespace weft::engine {

double measure_peak_flops(c10::Device device, c10::ScalarType type) {
  constexpr int kTries = 5;
  const at::NoGradGuard no_grad;
  const int64_t size = device.is_cpu() ? 512 : 4096;
  const at::Tensor factor = at::empty({size, size}, at::TensorOptions().device(device).dtype(type)).fill_(0.5);
  const double flops = 2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
  double best = 0;
  for (int i = 0; i <= kTries; ++i) {
    const Stopwatch watch;
    const at::Tensor out = at::mm(factor, factor);
    if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
    if (i > 0) best = std::max(best, flops / watch.elapsed_s());  // the first loads libraries
  }
  return best;
}

}  // namespace weft::engine
