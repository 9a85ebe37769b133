// For the tests of this folder: tensors out of a counter, and ranks in a group.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "weft/comm/c10d/gloo_group.h"
#include "weft/comm/collective.h"
#include "weft/comm/peer_lost.h"

namespace weft::comm {

inline constexpr at::ScalarType kAllTypes[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar,
                                               at::kShort, at::kInt,    at::kLong, at::kByte};

inline uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// Rank `rank`'s data of one test; another for each seed. Fractions have many magnitudes and both signs, so that another
// order of summation shows in the bits.
inline at::Tensor data_of(int rank, int64_t count, at::ScalarType type, uint64_t seed = 0) {
  std::vector<double> fractions(static_cast<size_t>(count));
  std::vector<int64_t> wholes(static_cast<size_t>(count));
  for (size_t i = 0; i < fractions.size(); ++i) {
    const uint64_t random = mixed(((seed * 1000 + static_cast<uint64_t>(rank) + 1) << 32) + i);
    wholes[i] = static_cast<int64_t>(random);
    fractions[i] = std::ldexp(static_cast<double>(static_cast<int32_t>(random)), static_cast<int>(random >> 60) - 37);
  }
  return (c10::isFloatingType(type) ? at::tensor(fractions) : at::tensor(wholes)).to(type);
}

// All ranks' data, reduced by the fabric's kernel.
inline at::Tensor reduced(int world, int64_t count, at::ScalarType type, ReduceOp op, uint64_t seed = 0) {
  std::vector<at::Tensor> inputs;
  std::vector<const std::byte*> sources;
  for (int rank = 0; rank < world; ++rank) {
    inputs.push_back(data_of(rank, count, type, seed));
    sources.push_back(static_cast<const std::byte*>(inputs.back().const_data_ptr()));
  }
  const at::Tensor result = at::empty({count}, type);
  if (count > 0) fabric::reduce(result.mutable_data_ptr(), sources, static_cast<size_t>(count), element_type(type), op);
  return result;
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.nbytes() != b.nbytes()) return false;
  return a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

inline int64_t sum_before(const std::vector<int64_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

// The body of a rank that is a thread, in one group with the others.
inline auto in_gloo_group(std::function<void(Group&)> body, double deadline_s = 30) {
  return [body = std::move(body), deadline_s, store = Store::in_process()](auto& context) {
    const GroupIdentity self = {"world", context.rank(), context.world(), deadline_s};
    const auto group = make_gloo_group(self, store, Deadline::after(30.0));
    body(*group);
  };
}

}  // namespace weft::comm
