#include "weft/matmul/product.h"

#include <cmath>

#include "weft/matmul/kernels_impl.h"
#include "weft/matmul/packing_impl.h"

namespace weft::matmul {
namespace {

float at(const Matrix& matrix, int64_t row, int64_t column) {
  return matrix.data[row * matrix.row_stride + column * matrix.column_stride];
}

float chain(const Product& product, int64_t row, int64_t column, int64_t first, int64_t last) {
  float sum = 0;
  for (int64_t k = first; k < last; ++k) sum = std::fma(at(product.a, row, k), at(product.b, k, column), sum);
  return sum;
}

void multiply_portably(const Product& product, float* /*scratch*/) {
  const int64_t block = inner_block(product.inner);
  for (int64_t row = 0; row < product.rows; ++row) {
    for (int64_t column = 0; column < product.columns; ++column) {
      float& c = product.c[row * product.c_row_stride + column];
      for (int64_t k = 0; k < product.inner; k += block) {
        const float sum = chain(product, row, column, k, std::min(product.inner, k + block));
        c = (k == 0 && !product.adds ? 0.0F : c) + sum;  // -0 becomes +0, as in torch
      }
    }
  }
}

}  // namespace

int64_t inner_block(int64_t inner) {
  using detail::kInnerBlock;
  if (inner <= kInnerBlock) return inner;
  // Two halves and, where it is odd, one more.
  return inner < 2 * kInnerBlock ? inner / 2 : kInnerBlock;
}

size_t scratch_floats(const Product& product) {
  using detail::kMostRows, detail::kTileColumns, detail::kTileRows, detail::round_up;
  const int64_t a = std::min(kMostRows, round_up(product.rows, kTileRows)) * inner_block(product.inner);
  const int64_t columns = std::min(detail::columns_at_a_time(product.inner), round_up(product.columns, kTileColumns));
  const int64_t panel = kTileColumns * inner_block(product.inner),
                all = columns * std::min(product.inner, detail::kMostInner);
  return static_cast<size_t>(a + (product.rows <= kMostRows ? panel : all) + 2 * detail::kLine);
}

Product rows_of(const Product& product, int64_t first, int64_t last) {
  Product part = product;
  part.rows = last - first;
  part.a.data += first * part.a.row_stride;
  part.c += first * part.c_row_stride;
  return part;
}

Product columns_of(const Product& product, int64_t first, int64_t last) {
  Product part = product;
  part.columns = last - first;
  part.b.data += first * part.b.column_stride;
  part.c += first;
  return part;
}

const Kernel& portable_kernel() {
  static constexpr Kernel kPortable = {"portable", multiply_portably};
  return kPortable;
}

const Kernel* fast_kernel() {
  static const Kernel* const kFound = detail::x86_kernel();
  return kFound;
}

}  // namespace weft::matmul
