#include "weft/engine/peak_flops.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "weft/base/clock.h"
#include "weft/matmul/choices.h"

namespace weft::engine {

double best_rate(const RateTrial& trial, double work, const std::function<void()>& run) {
  for (int i = 0; i < trial.warm_ups; ++i) run();
  double best = 0;
  const Stopwatch all;
  for (int i = 0; i < trial.tries && (i < trial.least_tries || all.elapsed_s() < trial.most_s); ++i) {
    const Stopwatch watch;
    run();
    best = std::max(best, work / watch.elapsed_s());
  }
  return best;
}

double measure_peak_flops(c10::Device device, c10::ScalarType type) {
  const at::NoGradGuard no_grad;
  // Small enough to take no time, many enough that one is not disturbed; fewer where products are slow, as bf16's are on most CPUs.
  const int64_t size = device.is_cpu() ? 512 : 4096;
  // The first loads libraries; those of fp32 are chosen a kernel for when they have come a few times, which takes many products' time.
  const RateTrial trial{.warm_ups = device.is_cpu() && type == at::kFloat ? matmul::Choices::kSightings : 1,
                        .tries = device.is_cpu() ? 30 : 10};
  const at::Tensor factor = at::empty({size, size}, at::TensorOptions().device(device).dtype(type)).fill_(0.5);
  const double flops = 2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
  at::Tensor out = at::empty_like(factor);
  return best_rate(trial, flops, [&] {
    at::mm_out(out, factor, factor);
    if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
  });
}

}  // namespace weft::engine
