// Sizes that kernels and callers share: how operands are cut and packed.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::matmul::detail {

// A tile of c is kTileRows x kTileColumns: 24 vectors of sums, which with three of b and one of a fill 28 of 32 registers.
constexpr int64_t kTileRows = 8, kTileColumns = 48;
// A panel of b (kInnerBlock x kTileColumns, 36 KiB) stays in the first cache while the rows of a pass by; kMostRows of a in the second.
constexpr int64_t kInnerBlock = 192, kMostRows = 192;
// Columns of c made at a time, and how much of their sums: b's part is kept packed for all rows, in the third cache.
constexpr int64_t kMostColumns = 32 * kTileColumns, kLeastColumns = 8 * kTileColumns, kMostPacked = 1 << 21;
constexpr int64_t kMostInner = 32 * kInnerBlock;
constexpr int64_t kLine = 16;  // floats: what is packed begins on lines of the cache

constexpr int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

constexpr int64_t columns_at_a_time(int64_t inner) {
  return std::clamp(kMostPacked / std::min(inner, kMostInner) / kTileColumns * kTileColumns, kLeastColumns,
                    kMostColumns);
}

}  // namespace weft::matmul::detail
