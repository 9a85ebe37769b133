#include "weft/engine/gradient_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include <cmath>

#include "weft/optim/optimizer.h"

namespace weft::engine {
namespace {

constexpr double kAgainstZero = 1e-6;

at::Tensor norm_there(const std::vector<at::Tensor>& parts, comm::Group* group) {
  std::vector<at::Tensor> norms;
  norms.reserve(parts.size());
  for (const at::Tensor& part : parts) {
    norms.push_back(at::linalg_vector_norm(part, 2, at::OptionalIntArrayRef(), false, at::kDouble));
  }
  at::Tensor norm = at::linalg_vector_norm(at::stack(norms), 2);
  if (group == nullptr) return norm;
  const at::Tensor squared = (norm * norm).view({1});
  group->all_reduce(squared);
  return squared.sqrt().view({});
}

double norm_here(const std::vector<at::Tensor>& parts, comm::Group* group) {
  optim::ExactSum sum;
  for (const at::Tensor& part : parts) sum.add(optim::sum_of_squares(part));
  if (group != nullptr) {
    const auto words = sum.words();
    group->all_reduce(at::from_blob(words.data(), {static_cast<int64_t>(words.size())}, at::kLong));
  }
  return std::sqrt(sum.value());
}

}  // namespace

double GradientNorm::value() const {
  if (!value_) value_ = on_device_.defined() ? on_device_.item<double>() : 0;
  return *value_;
}

GradientNorm global_norm(const std::vector<at::Tensor>& parts, comm::Group* group) {
  if (parts.front().is_cpu()) return GradientNorm(norm_here(parts, group));
  return GradientNorm(norm_there(parts, group));
}

double clip_factor(double norm, double limit) {
  if (limit <= 0 || !std::isfinite(norm)) return 1;
  const double factor = limit / (norm + kAgainstZero);
  return factor < 1 ? factor : 1;
}

at::Tensor clip_factor(const at::Tensor& norm, double limit) {
  const at::Tensor zero_or_nan = norm * 0;
  if (limit <= 0) return (zero_or_nan + 1).to(at::kFloat);
  return ((norm + kAgainstZero).reciprocal() * limit).clamp_max(1).add(zero_or_nan).to(at::kFloat);
}

}  // namespace weft::engine
