#include "weft/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weft {
namespace {

__extension__ using CompilersHalf = _Float16;

TEST(HalfConversion, WidensEveryHalfAsTheCompilerDoes) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const auto expected = static_cast<float>(std::bit_cast<CompilersHalf>(half));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(float_of_half(half))) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(float_of_half(half)), std::bit_cast<uint32_t>(expected)) << bits;
    }
  }
}

TEST(HalfConversion, NarrowsAsTheCompilerDoes) {
  // Every half, the halfway points between neighbours, and the floats next to those.
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto here = static_cast<double>(float_of_half(static_cast<uint16_t>(bits)));
    const double next = bits == 0x7bff ? 65536.0 : static_cast<double>(float_of_half(static_cast<uint16_t>(bits + 1)));
    const auto halfway = static_cast<float>((here + next) / 2);
    for (const float x :
         {static_cast<float>(here), halfway, std::nextafterf(halfway, 0), std::nextafterf(halfway, 1e9F)}) {
      for (const float value : {x, -x}) {
        ASSERT_EQ(half_of_float(value), std::bit_cast<uint16_t>(static_cast<CompilersHalf>(value))) << value;
      }
    }
  }
  EXPECT_EQ(half_of_float(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(half_of_float(-1e30F), 0xfc00);
  EXPECT_EQ(half_of_float(1e-30F), 0);
  EXPECT_EQ(half_of_float(std::numeric_limits<float>::quiet_NaN()), 0x7e00);
}

TEST(BFloat16Conversion, RoundsToTheNearestEven) {
  // Every bf16 with the lower half just below, at and just above the point halfway to the next.
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t lower : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const auto value = std::bit_cast<float>((upper << 16) | lower);
      if (std::isnan(value)) continue;
      const bool up = lower > 0x8000U || (lower == 0x8000U && upper % 2 == 1);
      ASSERT_EQ(bfloat16_of_float(value), upper + (up ? 1 : 0)) << value;
    }
  }
  EXPECT_EQ(bfloat16_of_float(std::numeric_limits<float>::quiet_NaN()), 0x7fc0);
  EXPECT_EQ(bfloat16_of_float(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_of_bfloat16(0x3f80), 1);
}

}  // namespace
}  // namespace weft
