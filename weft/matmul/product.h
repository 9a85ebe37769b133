// Products of matrices in fp32 whose sums have a fixed order, the one in which the BLAS inside torch's own packages adds on processors
// of AMD: the inner dimension in blocks of inner_block(), each a chain of fused multiply-adds from zero, the blocks added in turn. The
// width of the vectors, the tiles and the number of threads have no part in it, so a kernel with wider vectors gives the same bits.
//
//   const Kernel* kernel = fast_kernel();                       // null: none for this processor
//   std::vector<float> scratch(scratch_floats(product));
//   kernel->multiply(product, scratch.data());
//
// Plain memory, owned by the caller; any number of threads on products of their own, with scratch of their own. No failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace weft::matmul {

// One of the strides is 1; in elements.
struct Matrix {
  const float* data = nullptr;
  int64_t row_stride = 0, column_stride = 1;
};

// c = a b, or c += a b: a has rows x inner, b has inner x columns elements. c does not overlap them.
struct Product {
  int64_t rows = 0, columns = 0, inner = 0;
  Matrix a = {}, b = {};
  float* c = nullptr;
  int64_t c_row_stride = 0;  // its columns lie side by side
  bool adds = false;         // to what is in c
};

struct Kernel {
  std::string_view name;  // "portable", "avx512"
  void (*multiply)(const Product& product, float* scratch);
};

// How much of the inner dimension is one chain of sums. Requires: inner > 0.
int64_t inner_block(int64_t inner);
// What a kernel needs for its packed operands.
size_t scratch_floats(const Product& product);
// The part of a product that makes rows or columns first to last - 1 of c.
Product rows_of(const Product& product, int64_t first, int64_t last);
Product columns_of(const Product& product, int64_t first, int64_t last);

// Written for reading, and to compare with.
const Kernel& portable_kernel();
const Kernel* fast_kernel();

}  // namespace weft::matmul
