// Lamb on other devices: foreach operators over all slices for the moments and directions, over all pieces for the rest.
// Nobody waits for the device. Sums are fp64 there, in an order of torch's.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "weft/optim/optimizer_impl.h"

namespace weft::optim {
namespace {

using Tensors = std::vector<at::Tensor>;

struct LambLists {
  Tensors params, momenta, variances;
};

LambLists lamb_lists(std::span<const SliceState> slices) {
  LambLists out;
  for (const SliceState& state : slices) {
    out.params.push_back(state.slice.param);
    out.momenta.push_back(state.momentum);
    out.variances.push_back(state.variance);
  }
  return out;
}

void update_moments(const LambSettings& s, const LambLists& lists, at::TensorList grads) {
  at::_foreach_lerp_(lists.momenta, grads, 1 - s.beta1);
  at::_foreach_mul_(lists.variances, s.beta2);
  at::_foreach_addcmul_(lists.variances, grads, grads, 1 - s.beta2);
}

Tensors directions_of(const LambSettings& s, const LambLists& lists) {
  Tensors divisors;
  if (s.eps_inside_sqrt) {
    divisors = at::_foreach_add(lists.variances, s.eps);
    at::_foreach_sqrt_(divisors);
  } else {
    divisors = at::_foreach_sqrt(lists.variances);
    at::_foreach_add_(divisors, s.eps);
  }
  Tensors out = at::_foreach_div(lists.momenta, divisors);
  if (s.weight_decay != 0) at::_foreach_add_(out, lists.params, s.weight_decay);
  return out;
}

// Views of all pieces, whose each is, and what its direction is multiplied by, the trust ratio left out.
struct Pieces {
  Tensors params, directions;
  std::vector<int64_t> owners;
  std::vector<double> step_sizes;
};

Pieces pieces_of(const LambSettings& s, std::span<const SliceState> slices, const Tensors& directions, int64_t step) {
  Pieces out;
  for (size_t i = 0; i < slices.size(); ++i) {
    for (const Piece& piece : slices[i].slice.pieces) {
      out.params.push_back(slices[i].slice.param.view(-1).narrow(0, piece.first, piece.count));
      out.directions.push_back(directions[i].view(-1).narrow(0, piece.first, piece.count));
      out.owners.push_back(piece.parameter);
      out.step_sizes.push_back(lamb_step_size(s, own_step(step, slices[i])));
    }
  }
  return out;
}

at::Tensor squares_of(const Tensors& pieces) { return at::stack(at::_foreach_norm(pieces, 2, at::kDouble)).square(); }

// Row 0: of the parameters, row 1: of their directions.
at::Tensor sums_of(const Pieces& pieces, const at::Tensor& owners, int64_t num_parameters) {
  at::Tensor sums = at::zeros({2, num_parameters}, owners.options().dtype(at::kDouble));
  if (pieces.owners.empty()) return sums;
  return sums.index_add_(1, owners, at::stack({squares_of(pieces.params), squares_of(pieces.directions)}));
}

// One a parameter.
at::Tensor trust_ratios(const LambSettings& s, const at::Tensor& sums) {
  const at::Tensor ratios = (sums[0] / sums[1]).sqrt().clamp(s.min_coeff, s.max_coeff);
  return at::where(sums.eq(0).any(0), at::ones_like(ratios), ratios);
}

}  // namespace

void lamb_with_torch(const LambSettings& settings, std::span<SliceState> slices, at::TensorList grads, int64_t step,
                     const WholeParameters& whole) {
  const LambLists lists = lamb_lists(slices);
  update_moments(settings, lists, grads);
  const Pieces pieces = pieces_of(settings, slices, directions_of(settings, lists), step);
  const at::Tensor owners = at::tensor(pieces.owners, at::kLong).to(lists.params.front().device());
  const at::Tensor sums = sums_of(pieces, owners, whole.count);
  if (whole.add) whole.add(sums);
  if (pieces.owners.empty()) return;
  const at::Tensor step_sizes = at::tensor(pieces.step_sizes, at::kDouble).to(owners.device());
  const at::Tensor rates = trust_ratios(settings, sums).index_select(0, owners) * step_sizes;
  at::_foreach_mul_(pieces.directions, rates.to(at::kFloat).unbind());
  at::_foreach_sub_(pieces.params, pieces.directions);
}

}  // namespace weft::optim
