// Shared by the files that make up Fabric.
#pragma once

#include <cstring>
#include <numeric>

#include "weft/comm/fabric/fabric.h"

namespace weft::fabric {

// One slot of the staging region: large enough to hide a barrier, small enough to stay in the second-level cache.
inline constexpr size_t kSlotBytes = size_t{1} << 20;
// Up to here every rank reduces everything itself: one barrier costs less than the sharing would save.
inline constexpr size_t kSmallBytes = size_t{64} << 10;
inline constexpr int kEveryRank = -1;

// The elements that one rank reduces for all.
struct Fabric::Cut {
  size_t first = 0, count = 0;
};

inline std::byte* bytes_at(void* data, size_t offset = 0) { return static_cast<std::byte*>(data) + offset; }
inline const std::byte* bytes_at(const void* data, size_t offset = 0) {
  return static_cast<const std::byte*>(data) + offset;
}

// A part may already be where it belongs, and an empty one may be nowhere.
inline void copy_bytes(std::byte* into, const std::byte* from, size_t bytes) {
  if (bytes != 0 && into != from) std::memcpy(into, from, bytes);
}

inline uint32_t variant_of(Elements elements, int root = 0) {
  return static_cast<uint32_t>(elements.type) | static_cast<uint32_t>(elements.op) << 8 |
         static_cast<uint32_t>(root) << 16;
}

inline size_t sum_of(std::span<const size_t> sizes) { return std::accumulate(sizes.begin(), sizes.end(), size_t{0}); }
inline size_t sum_before(std::span<const size_t> sizes, int rank) {
  return sum_of(sizes.first(static_cast<size_t>(rank)));
}

}  // namespace weft::fabric
