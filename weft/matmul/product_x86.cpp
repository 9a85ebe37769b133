// The usual way to multiply on a processor with caches: operands are packed into panels in the order in which they are read, and a
// tile of c is summed in registers. The instruction set belongs to each function, not to the file: a helper of the standard library
// that is not inlined must stay one that any machine can run.
#include <immintrin.h>

#include "weft/matmul/kernels_impl.h"
#include "weft/matmul/packing_impl.h"

#define WEFT_AVX512 [[gnu::target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]]
#define WEFT_AVX512_INLINE [[gnu::target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl"), gnu::always_inline]] inline

namespace weft::matmul::detail {
namespace {

constexpr int64_t kVector = 16, kVectors = kTileColumns / kVector;
constexpr int64_t kEight = 8, kGroup = 4 * kTileRows;

// Lines of an operand that are interleaved into a panel: rows of a, columns of b.
struct Lines {
  const float* data;
  int64_t count;        // of them there are, the rest of the panel is zeros
  int64_t line_stride;  // from one to the next
  int64_t inner_stride;
};

Lines rows_from(const Matrix& a, int64_t row, int64_t count, int64_t inner) {
  return {a.data + row * a.row_stride + inner * a.column_stride, count, a.row_stride, a.column_stride};
}

Lines columns_from(const Matrix& b, int64_t column, int64_t count, int64_t inner) {
  return {b.data + column * b.column_stride + inner * b.row_stride, count, b.column_stride, b.row_stride};
}

// Eight elements of eight lines that lie along the inner dimension, turned.
WEFT_AVX512_INLINE void turn_eight(const float* from, int64_t line_stride, float* to, int64_t width) {
  __m256 r[8], s[8];  // std::array would drop their alignment
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from + i * line_stride);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

WEFT_AVX512 void pack_one_by_one(const Lines& lines, int64_t first_line, int64_t last_line, int64_t first, int64_t last,
                                 int64_t width, float* panel) {
  for (int64_t k = first; k < last; ++k) {
    for (int64_t line = first_line; line < last_line; ++line)
      panel[k * width + line] =
          line < lines.count ? lines.data[line * lines.line_stride + k * lines.inner_stride] : 0.0F;
  }
}

// panel[k][line], `width` lines of `inner` elements.
WEFT_AVX512 void pack_across(const Lines& lines, int64_t inner, int64_t width, float* panel) {
  const int64_t whole = inner / kEight * kEight;
  for (int64_t line = 0; line < width; line += kEight) {
    if (line + kEight > lines.count) {
      pack_one_by_one(lines, line, line + kEight, 0, inner, width, panel);
      continue;
    }
    for (int64_t k = 0; k < whole; k += kEight)
      turn_eight(lines.data + line * lines.line_stride + k, lines.line_stride, panel + k * width + line, width);
    pack_one_by_one(lines, line, line + kEight, whole, inner, width, panel);
  }
}

// The same for lines that lie side by side.
WEFT_AVX512 void pack_along(const Lines& lines, int64_t inner, int64_t width, float* panel) {
  for (int64_t k = 0; k < inner; ++k) {
    const float* const from = lines.data + k * lines.inner_stride;
    for (int64_t line = 0; line < width; line += kEight) {
      const int64_t there = std::clamp<int64_t>(lines.count - line, 0, kEight);
      const auto mask = static_cast<__mmask8>((1U << there) - 1);
      _mm256_storeu_ps(panel + k * width + line, _mm256_maskz_loadu_ps(mask, from + line));
    }
  }
}

WEFT_AVX512 void pack(const Lines& lines, int64_t inner, int64_t width, float* panel) {
  if (lines.line_stride == 1) return pack_along(lines, inner, width, panel);
  if (lines.inner_stride == 1) return pack_across(lines, inner, width, panel);
  pack_one_by_one(lines, 0, width, 0, inner, width, panel);
}

// Panels of kTileRows lines each. Of lines that lie side by side those of several panels are taken at a time, whole lines of the cache:
// along the inner dimension they may be so far apart that the caches keep few of them until the next panel comes.
WEFT_AVX512 void pack_group(const Lines& lines, int64_t inner, float* panels) {
  for (int64_t k = 0; k < inner; ++k) {
#pragma GCC unroll 4
    for (int64_t row = 0; row < kGroup; row += kTileRows)
      _mm256_storeu_ps(panels + row * inner + k * kTileRows,
                       _mm256_loadu_ps(lines.data + k * lines.inner_stride + row));
  }
}

WEFT_AVX512 void pack_rows(const Lines& rows, int64_t inner, float* panels) {
  int64_t row = 0;
  const auto left = [&](int64_t count) -> Lines {
    return {rows.data + row * rows.line_stride, std::min(count, rows.count - row), rows.line_stride, rows.inner_stride};
  };
  for (; rows.line_stride == 1 && row + kGroup <= rows.count; row += kGroup)
    pack_group(left(kGroup), inner, panels + row * inner);
  for (; row < rows.count; row += kTileRows) pack(left(kTileRows), inner, kTileRows, panels + row * inner);
}

// A tile of c: where, how much of it there is, and whether sums are added to it.
struct Tile {
  float* c;
  int64_t row_stride, rows, columns;
  bool adds;
};

WEFT_AVX512_INLINE void store_row(const Tile& tile, int64_t row, const __m512 (&sums)[kVectors]) {
#pragma GCC unroll 3
  for (int64_t v = 0; v < kVectors; ++v) {
    const int64_t there = std::clamp<int64_t>(tile.columns - v * kVector, 0, kVector);
    const auto mask = static_cast<__mmask16>((1U << there) - 1);
    float* const to = tile.c + row * tile.row_stride + v * kVector;
    // Zero is added too: a chain of tiny products may end in -0, which is +0 in torch.
    const __m512 there_before = tile.adds ? _mm512_maskz_loadu_ps(mask, to) : _mm512_setzero_ps();
    const __m512 value = _mm512_add_ps(there_before, sums[v]);
    _mm512_mask_storeu_ps(to, mask, value);
  }
}

WEFT_AVX512 void multiply_tile(const float* a, const float* b, int64_t inner, const Tile& tile) {
  __m512 sums[kTileRows][kVectors];
#pragma GCC unroll 8
  for (auto& row : sums) row[0] = row[1] = row[2] = _mm512_setzero_ps();
  for (int64_t k = 0; k < inner; ++k, a += kTileRows, b += kTileColumns) {
    const __m512 b0 = _mm512_load_ps(b), b1 = _mm512_load_ps(b + kVector), b2 = _mm512_load_ps(b + 2 * kVector);
#pragma GCC unroll 8
    for (int64_t row = 0; row < kTileRows; ++row) {
      const __m512 one = _mm512_set1_ps(a[row]);
      sums[row][0] = _mm512_fmadd_ps(one, b0, sums[row][0]);
      sums[row][1] = _mm512_fmadd_ps(one, b1, sums[row][1]);
      sums[row][2] = _mm512_fmadd_ps(one, b2, sums[row][2]);
    }
  }
#pragma GCC unroll 8
  for (int64_t row = 0; row < kTileRows; ++row) {
    if (row < tile.rows) store_row(tile, row, sums[row]);
  }
}

struct Range {
  int64_t first, count;
};

// The first float of a line of the cache; scratch_floats() has room for what is passed over.
float* aligned(float* scratch) {
  const auto over = static_cast<int64_t>(reinterpret_cast<uintptr_t>(scratch) / sizeof(float) % kLine);
  return scratch + (kLine - over) % kLine;
}

// Some columns of c. Where there is one block of rows, a panel of b is packed just before it is used, else all of them once; a block
// of c then stays in the cache while it is summed up.
class Columns {
 public:
  Columns(const Product& product, Range columns, float* scratch)
      : product_(product),
        columns_(columns),
        block_(inner_block(product.inner)),
        b_(aligned(scratch)),
        a_(b_ + (has_one_block_of_rows() ? kTileColumns * block_
                                         : packed_columns() * std::min(product.inner, kMostInner))) {}

  WEFT_AVX512 void multiply() {
    for (int64_t k = 0; k < product_.inner; k += kMostInner) multiply_part(k, std::min(product_.inner, k + kMostInner));
  }

 private:
  bool has_one_block_of_rows() const { return product_.rows <= kMostRows; }
  int64_t packed_columns() const { return round_up(columns_.count, kTileColumns); }
  Range inner_from(int64_t k) const { return {k, std::min(block_, product_.inner - k)}; }
  int64_t width_from(int64_t column) const { return std::min(kTileColumns, columns_.count - column); }

  float* panel_of(int64_t column, Range inner) const {
    if (has_one_block_of_rows()) return b_;
    return b_ + packed_columns() * (inner.first % kMostInner) + column * inner.count;
  }

  WEFT_AVX512 void multiply_part(int64_t first, int64_t last) {
    for (int64_t k = first; !has_one_block_of_rows() && k < last; k += block_) pack_columns(inner_from(k));
    for (int64_t row = 0; row < product_.rows; row += kMostRows) {
      const Range rows{row, std::min(kMostRows, product_.rows - row)};
      for (int64_t k = first; k < last; k += block_) multiply_rows(rows, inner_from(k));
    }
  }

  WEFT_AVX512 void pack_panel(int64_t column, Range inner) {
    pack(columns_from(product_.b, columns_.first + column, width_from(column), inner.first), inner.count, kTileColumns,
         panel_of(column, inner));
  }

  WEFT_AVX512 void pack_columns(Range inner) {
    for (int64_t column = 0; column < columns_.count; column += kTileColumns) pack_panel(column, inner);
  }

  WEFT_AVX512 void multiply_rows(Range rows, Range inner) {
    pack_rows(rows_from(product_.a, rows.first, rows.count, inner.first), inner.count, a_);
    for (int64_t column = 0; column < columns_.count; column += kTileColumns) {
      if (has_one_block_of_rows()) pack_panel(column, inner);
      multiply_panel(rows, column, inner);
    }
  }

  WEFT_AVX512 void multiply_panel(Range rows, int64_t column, Range inner) {
    const bool adds = product_.adds || inner.first > 0;
    for (int64_t row = 0; row < rows.count; row += kTileRows) {
      float* const c = product_.c + (rows.first + row) * product_.c_row_stride + columns_.first + column;
      multiply_tile(a_ + row * inner.count, panel_of(column, inner), inner.count,
                    {c, product_.c_row_stride, std::min(kTileRows, rows.count - row), width_from(column), adds});
    }
  }

  const Product& product_;
  const Range columns_;
  const int64_t block_;
  float* const b_;
  float* const a_;
};

WEFT_AVX512 void multiply_avx512(const Product& product, float* scratch) {
  const int64_t most = columns_at_a_time(product.inner);
  for (int64_t column = 0; column < product.columns; column += most)
    Columns(product, {column, std::min(most, product.columns - column)}, scratch).multiply();
}

constexpr Kernel kAvx512 = {"avx512", multiply_avx512};

}  // namespace

const Kernel* x86_kernel() {
  const bool is_able = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                       __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return is_able ? &kAvx512 : nullptr;
}

}  // namespace weft::matmul::detail
