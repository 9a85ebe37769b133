// What wire_collectives.cpp (moves) and wire_reductions.cpp share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "weft/comm/c10d/wire_collectives.h"

namespace weft::comm {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

// Up to here one round of everything costs less than two rounds of parts.
inline constexpr size_t kOneRoundBytes = 64 << 10;
// The tags of what comes back, after the two lanes of what goes out.
inline constexpr uint32_t kSecondRound = 2;

inline Bytes bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() == 0) return {};
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

// A run of bytes cut into one part per rank.
struct WireCollectives::Parts {
  std::vector<size_t> offsets, sizes;

  Parts(const std::vector<int64_t>& counts, size_t element_bytes) {
    size_t offset = 0;
    for (const int64_t count : counts) {
      offsets.push_back(offset);
      sizes.push_back(static_cast<size_t>(count) * element_bytes);
      offset += sizes.back();
    }
  }
  template <typename Byte>
  std::span<Byte> of(std::span<Byte> whole, int rank) const {
    return whole.subspan(offsets[static_cast<size_t>(rank)], sizes[static_cast<size_t>(rank)]);
  }
};

}  // namespace weft::comm
