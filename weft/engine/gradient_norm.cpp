#include "weft/engine/gradient_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include <cmath>

#include "weft/optim/optimizer.h"

namespace weft::engine {
namespace {

constexpr double kAgainstZero = 1e-6;

at::Tensor norm_there(const memory::FlatBuckets& buckets) {
  std::vector<at::Tensor> norms;
  for (int bucket = 0; bucket < buckets.size(); ++bucket) {
    norms.push_back(
        at::linalg_vector_norm(buckets.gradients(bucket), 2, at::OptionalIntArrayRef(), false, at::kDouble));
  }
  return at::linalg_vector_norm(at::stack(norms), 2);
}

}  // namespace

double GradientNorm::value() const {
  if (!value_) value_ = on_device_.defined() ? on_device_.item<double>() : 0;
  return *value_;
}

GradientNorm global_norm(const memory::FlatBuckets& buckets, const plan::ParameterTable& table) {
  if (!buckets.gradients(0).is_cpu()) return GradientNorm(norm_there(buckets));
  double sum = 0;
  for (const int parameter : table.trainable()) sum += optim::sum_of_squares(buckets.gradient_view(parameter));
  return GradientNorm(std::sqrt(sum));
}

double clip_factor(double norm, double limit) {
  if (limit <= 0 || !std::isfinite(norm)) return 1;
  const double factor = limit / (norm + kAgainstZero);
  return factor < 1 ? factor : 1;
}

at::Tensor clip_factor(const at::Tensor& norm, double limit) {
  const at::Tensor zero_or_nan = norm - norm;
  if (limit <= 0) return (zero_or_nan + 1).to(at::kFloat);
  return ((norm + kAgainstZero).reciprocal() * limit).clamp_max(1).add(zero_or_nan).to(at::kFloat);
}

}  // namespace weft::engine
