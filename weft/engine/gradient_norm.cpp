#include "weft/engine/gradient_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>

#include <cmath>

#include "weft/optim/optimizer.h"

namespace weft::engine {
namespace {

constexpr double kAgainstZero = 1e-6;

at::Tensor norm_there(const std::vector<at::Tensor>& parts, comm::Group* group) {
  const at::Tensor squared = optim::sum_of_squares_there(parts);
  if (group != nullptr) group->all_reduce(squared.view({1}));
  return squared.sqrt();
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
