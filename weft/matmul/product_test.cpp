#include "weft/matmul/product.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace weft::matmul {
namespace {

constexpr float kUntouched = 12345;

enum class Lie { kRows, kColumns };  // which of them lie side by side

// A product with memory of its own, c inside a larger matrix.
struct Made {
  std::vector<float> a, b, c;
  Product product;

  Made(int64_t rows, int64_t columns, int64_t inner, Lie a_lies, Lie b_lies, bool adds, uint32_t seed = 1) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> any(-1, 1);
    const auto fill = [&](std::vector<float>& values, int64_t count) {
      values.resize(static_cast<size_t>(count));
      for (float& value : values) value = any(random);
    };
    const auto matrix = [&](std::vector<float>& values, int64_t down, int64_t across, Lie lies) -> Matrix {
      constexpr int64_t kGap = 3;
      const int64_t line = (lies == Lie::kRows ? across : down) + kGap;
      fill(values, (lies == Lie::kRows ? down : across) * line);
      return lies == Lie::kRows ? Matrix{values.data(), line, 1} : Matrix{values.data(), 1, line};
    };
    product = {.rows = rows, .columns = columns, .inner = inner, .c_row_stride = columns + 5, .adds = adds};
    product.a = matrix(a, rows, inner, a_lies);
    product.b = matrix(b, inner, columns, b_lies);
    c.assign(static_cast<size_t>((rows + 1) * product.c_row_stride), kUntouched);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) c[at(row, column)] = any(random);
    }
  }

  size_t at(int64_t row, int64_t column) const { return static_cast<size_t>(row * product.c_row_stride + column); }

  std::vector<float> with(const Kernel& kernel) const {
    std::vector<float> out = c, scratch(scratch_floats(product));
    Product mine = product;
    mine.c = out.data();
    kernel.multiply(mine, scratch.data());
    return out;
  }
};

std::vector<uint32_t> bits(const std::vector<float>& values) {
  std::vector<uint32_t> out;
  for (const float value : values) out.push_back(std::bit_cast<uint32_t>(value));
  return out;
}

const Kernel& fast() { return fast_kernel() == nullptr ? portable_kernel() : *fast_kernel(); }

#define NEEDS_A_FAST_KERNEL() \
  if (fast_kernel() == nullptr) GTEST_SKIP() << "no vectors of 512 bits here"

TEST(Product, InnerBlocksAreWholeHalvesOrOf192) {
  EXPECT_EQ(inner_block(1), 1);
  EXPECT_EQ(inner_block(192), 192);
  EXPECT_EQ(inner_block(193), 96);  // 96, 96 and 1
  EXPECT_EQ(inner_block(383), 191);
  EXPECT_EQ(inner_block(384), 192);
  EXPECT_EQ(inner_block(10000), 192);
}

TEST(Product, IsWhatItIsInDoublePrecision) {
  for (const Kernel* kernel : {&portable_kernel(), &fast()}) {
    const Made made(9, 50, 400, Lie::kRows, Lie::kColumns, /*adds=*/true);
    const std::vector<float> found = made.with(*kernel);
    for (int64_t row = 0; row < 9; ++row) {
      for (int64_t column = 0; column < 50; ++column) {
        double sum = made.c[made.at(row, column)];
        for (int64_t k = 0; k < 400; ++k)
          sum += static_cast<double>(made.product.a.data[row * made.product.a.row_stride + k]) *
                 made.product.b.data[k + column * made.product.b.column_stride];
        EXPECT_NEAR(found[made.at(row, column)], sum, 1e-4) << kernel->name;
      }
    }
  }
}

TEST(Product, OfTheFastKernelHasThePortableOnesBits) {
  NEEDS_A_FAST_KERNEL();
  std::mt19937 random(7);
  const int64_t sizes[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 47, 48, 49, 63, 96, 97, 130, 200};
  const int64_t inners[] = {1, 2, 7, 8, 9, 100, 191, 192, 193, 194, 301, 383, 384, 385, 400, 577};
  const auto any_of = [&](const auto& values) { return values[random() % std::size(values)]; };
  for (uint32_t i = 0; i < 200; ++i) {
    const int64_t rows = any_of(sizes), columns = any_of(sizes), inner = any_of(inners);
    const Lie a = random() % 2 == 0 ? Lie::kRows : Lie::kColumns, b = random() % 2 == 0 ? Lie::kRows : Lie::kColumns;
    const Made made(rows, columns, inner, a, b, random() % 2 == 0, i);
    ASSERT_EQ(bits(made.with(fast())), bits(made.with(portable_kernel())))
        << rows << " x " << inner << " x " << columns << (made.product.adds ? ", adds" : "");
  }
}

TEST(Product, OfManyRowsOrColumnsHasTheSameBits) {
  NEEDS_A_FAST_KERNEL();
  struct {
    int64_t rows, columns, inner;
  } constexpr kSizes[] = {{500, 50, 20}, {9, 1700, 20}, {393, 1550, 20}, {200, 100, 6401}, {230, 490, 401}};
  for (const auto& [rows, columns, inner] : kSizes) {
    const Made made(rows, columns, inner, Lie::kColumns, Lie::kRows, /*adds=*/false);
    EXPECT_EQ(bits(made.with(fast())), bits(made.with(portable_kernel())))
        << rows << " x " << inner << " x " << columns;
  }
}

// Gigabytes of inner dimension are no reason for gigabytes of scratch.
TEST(Product, NeedsBoundedScratch) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  EXPECT_LT(scratch_floats({.rows = kHuge, .columns = kHuge, .inner = kHuge}), size_t{4} << 20);
}

TEST(Product, TouchesNothingBesideC) {
  const Made made(13, 51, 193, Lie::kRows, Lie::kRows, /*adds=*/false);
  const std::vector<float> found = made.with(fast());
  for (int64_t row = 0; row <= 13; ++row) {
    for (int64_t column = row < 13 ? 51 : 0; column < made.product.c_row_stride; ++column)
      EXPECT_EQ(found[made.at(row, column)], kUntouched);
  }
}

TEST(Product, WithAnInfinityStaysInItsRow) {
  Made made(9, 49, 10, Lie::kRows, Lie::kRows, /*adds=*/false);
  made.a[static_cast<size_t>(4 * made.product.a.row_stride)] = std::numeric_limits<float>::infinity();
  const std::vector<float> found = made.with(fast());
  for (int64_t row = 0; row < 9; ++row) EXPECT_EQ(std::isfinite(found[made.at(row, 48)]), row != 4) << row;
}

TEST(Product, InPartsIsTheWhole) {
  const Made made(20, 100, 250, Lie::kRows, Lie::kColumns, /*adds=*/true);
  const std::vector<float> whole = made.with(fast());
  const auto in_parts = [&](auto part_of, int64_t count) {
    std::vector<float> out = made.c, scratch(scratch_floats(made.product));
    Product product = made.product;
    product.c = out.data();
    fast().multiply(part_of(product, 0, 9), scratch.data());
    fast().multiply(part_of(product, 9, count), scratch.data());
    return out;
  };
  EXPECT_EQ(bits(in_parts(rows_of, 20)), bits(whole));
  EXPECT_EQ(bits(in_parts(columns_of, 100)), bits(whole));
}

}  // namespace
}  // namespace weft::matmul
