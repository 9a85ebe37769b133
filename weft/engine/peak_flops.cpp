#include "weft/engine/peak_flops.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "weft/base/clock.h"

namespace weft::engine {

double measure_peak_flops(c10::Device device, c10::ScalarType type) {
  const at::NoGradGuard no_grad;
  // Small enough to take no time, many enough that one is not disturbed; fewer where products are slow, as bf16's are on most CPUs.
  const int64_t size = device.is_cpu() ? 512 : 4096;
  const int tries = device.is_cpu() ? 30 : 10, least_tries = 2;
  const double most_s = 0.2;
  const at::Tensor factor = at::empty({size, size}, at::TensorOptions().device(device).dtype(type)).fill_(0.5);
  const double flops = 2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
  at::Tensor out = at::empty_like(factor);
  double best = 0;
  const Stopwatch all;
  for (int i = 0; i <= tries && (i <= least_tries || all.elapsed_s() < most_s); ++i) {
    const Stopwatch watch;
    at::mm_out(out, factor, factor);
    if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
    if (i > 0) best = std::max(best, flops / watch.elapsed_s());  // the first loads libraries
  }
  return best;
}

}  // namespace weft::engine
