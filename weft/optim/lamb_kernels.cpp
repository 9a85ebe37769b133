// Lamb on the CPU: moments, directions and the sums of their squares, piece by piece; then, with the trust ratio of each
// parameter, the parameters. Directions are not kept between the two but computed again, from the same numbers: that costs
// less than the memory.
//
// Sums are exact (add_squares), so a trust ratio does not depend on where slices, ranks or threads cut a parameter.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "weft/base/for_blocks.h"
#include "weft/optim/core/exact_sum.h"
#include "weft/optim/core/kernels.h"
#include "weft/optim/optimizer_impl.h"

namespace weft::optim {
namespace {

using Sums = LambSums::OfParameter;

void add_to(Sums& sums, const Sums& more) {
  sums.parameters.add(more.parameters);
  sums.directions.add(more.directions);
}

template <typename Body>
void for_pieces(std::span<SliceState> slices, double grad_scale, const Body& body) {
  for (const SliceState& state : slices) {
    const Slice slice = kernel_slice(state, grad_scale);
    for (const Piece& piece : state.slice.pieces) {
      body(slice.part(static_cast<size_t>(piece.first), static_cast<size_t>(piece.count)),
           static_cast<size_t>(piece.parameter), state);
    }
  }
}

Sums first_pass(const LambFactors& factors, const Slice& slice) {
  constexpr size_t kAtOnce = 4096;  // stays in the first-level cache
  std::array<float, kAtOnce> directions;
  Sums out;
  for (size_t first = 0; first < slice.count; first += kAtOnce) {
    const Slice part = slice.part(first, std::min(kAtOnce, slice.count - first));
    kernels().lamb_directions(factors, part, directions.data());
    add_squares(out.parameters, {static_cast<const float*>(part.param), part.count});
    add_squares(out.directions, {directions.data(), part.count});
  }
  return out;
}

Sums first_pass_in_threads(const LambFactors& factors, const Slice& slice) {
  Sums total;
  std::mutex mutex;
  for_blocks(slice.count, kThreadBlock, [&](size_t first, size_t size) {
    const Sums part = first_pass(factors, slice.part(first, size));
    const std::scoped_lock lock(mutex);
    add_to(total, part);
  });
  return total;
}

// --- Over ranks ------------------------------------------------------------------------------------------------------

constexpr size_t kNumSent = kNumSquareWords + 1;  // and the count of what is not finite

double* put(ExactSum& sum, double* into) {
  sum.carry();
  for (const int64_t word : sum.words().subspan(kFirstSquareWord, kNumSquareWords)) *into++ = static_cast<double>(word);
  *into++ = static_cast<double>(sum.words().back());
  return into;
}

const double* take(ExactSum& sum, const double* from) {
  for (int64_t& word : sum.words().subspan(kFirstSquareWord, kNumSquareWords)) word = static_cast<int64_t>(*from++);
  sum.words().back() = static_cast<int64_t>(*from++);
  return from;
}

void add_over_ranks(LambSums& sums, const AddOverRanks& add) {
  const auto count = static_cast<int64_t>(sums.by_parameter.size() * 2 * kNumSent);
  if (!sums.sent.defined() || sums.sent.numel() != count) sums.sent = at::empty({count}, at::kDouble);
  auto* into = sums.sent.mutable_data_ptr<double>();
  for (Sums& each : sums.by_parameter) into = put(each.directions, put(each.parameters, into));
  add(sums.sent);
  const auto* from = sums.sent.const_data_ptr<double>();
  for (Sums& each : sums.by_parameter) from = take(each.directions, take(each.parameters, from));
}

}  // namespace

void lamb_with_kernels(const LambSettings& settings, std::span<SliceState> slices, double grad_scale, int64_t step,
                       const WholeParameters& whole) {
  const LambFactors factors = lamb_factors(settings);
  LambSums of_this_step;
  LambSums& kept = whole.sums != nullptr ? *whole.sums : of_this_step;
  std::vector<Sums>& sums = kept.by_parameter;
  sums.assign(static_cast<size_t>(whole.count), {});
  for_pieces(slices, grad_scale, [&](const Slice& slice, size_t parameter, const SliceState&) {
    add_to(sums[parameter], first_pass_in_threads(factors, slice));
  });
  if (whole.add) add_over_ranks(kept, whole.add);
  for_pieces(slices, grad_scale, [&](const Slice& slice, size_t parameter, const SliceState& state) {
    const auto& [parameters, directions] = sums[parameter];
    const double ratio = lamb_trust_ratio(settings, parameters.value(), directions.value());
    const auto rate = static_cast<float>(lamb_step_size(settings, own_step(step, state)) * ratio);
    for_blocks(slice.count, kThreadBlock,
               [&](size_t first, size_t size) { kernels().lamb_apply(factors, rate, slice.part(first, size)); });
  });
}

}  // namespace weft::optim
