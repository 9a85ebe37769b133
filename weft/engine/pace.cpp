#include "weft/engine/pace.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <c10/core/GradMode.h>

#include "weft/base/clock.h"

namespace weft::engine {
namespace {

constexpr int64_t kSize = 96;  // three matrices fit the second-level cache of any processor

}  // namespace

Pace::Pace() : numbers_(at::full({kSize, kSize}, 1.0 / kSize, at::kFloat)), product_(at::empty_like(numbers_)) {}

double Pace::measure_us() const {
  const at::NoGradGuard no_grad;
  at::Tensor out = product_;
  // torch's own kernel, not the operator: no part of the model, and the same on every rank, whatever FastProducts chose there.
  at::cpu::mm_out(out, numbers_, numbers_);
  const Stopwatch watch;
  at::cpu::mm_out(out, numbers_, numbers_);
  return watch.elapsed_s() * 1e6;
}

}  // namespace weft::engine
