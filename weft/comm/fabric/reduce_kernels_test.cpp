#include "weft/comm/fabric/reduce_kernels.h"

#include <gtest/gtest.h>

#include <limits>

#include "weft/comm/fabric/test_data_impl.h"

namespace weft::fabric {
namespace {

Bytes reduced(const std::vector<Bytes>& sources, ElementType type, ReduceOp op) {
  std::vector<const std::byte*> pointers;
  for (const Bytes& source : sources) pointers.push_back(source.data());
  Bytes into(sources.front().size());
  reduce(into.data(), pointers, into.size() / element_bytes(type), type, op);
  return into;
}

class Reduce : public testing::TestWithParam<std::tuple<ElementType, ReduceOp>> {};

TEST_P(Reduce, EqualsTheScalarTwinBitForBit) {
  const auto [type, op] = GetParam();
  for (const size_t world : {1, 2, 3, 8}) {
    for (const size_t count : {0, 1, 7, 1009, 1024, 5000}) {
      std::vector<Bytes> sources;
      for (size_t rank = 0; rank < world; ++rank) sources.push_back(elements_of(type, count, rank));
      EXPECT_EQ(reduced(sources, type, op), reduced_by_hand(sources, type, op)) << world << " x " << count;
    }
  }
}

TEST_P(Reduce, MayWriteOverAnySource) {
  const auto [type, op] = GetParam();
  constexpr size_t kCount = 3001;
  for (size_t target = 0; target < 3; ++target) {
    std::vector<Bytes> sources;
    for (size_t rank = 0; rank < 3; ++rank) sources.push_back(elements_of(type, kCount, rank));
    const Bytes expected = reduced_by_hand(sources, type, op);
    const std::byte* const pointers[] = {sources[0].data(), sources[1].data(), sources[2].data()};
    reduce(sources[target].data(), pointers, kCount, type, op);
    EXPECT_EQ(sources[target], expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Reduce, testing::Combine(testing::ValuesIn(kAllTypes), testing::ValuesIn(kAllOps)));

TEST(ReduceKernels, AddsInTheOrderOfRanks) {
  // (1e8 + 1) - 1e8 loses the 1 in fp32; every other order keeps it.
  const float a = 1e8F, b = 1.0F, c = -1e8F;
  const auto bytes = [](const float& x) { return reinterpret_cast<const std::byte*>(&x); };
  const std::byte* const in_order[] = {bytes(a), bytes(b), bytes(c)};
  const std::byte* const other[] = {bytes(a), bytes(c), bytes(b)};
  float sum = 7;
  reduce(&sum, in_order, 1, ElementType::kFloat32, ReduceOp::kSum);
  EXPECT_EQ(sum, 0);
  reduce(&sum, other, 1, ElementType::kFloat32, ReduceOp::kSum);
  EXPECT_EQ(sum, 1);
}

TEST(ReduceKernels, HalfSumsAreRoundedOnce) {
  // 2048 + 1 + 1: rounded after each step it stays 2048, carried in fp32 it is 2050.
  const uint16_t large = half_of_float(2048), one = half_of_float(1);
  const auto bytes = [](const uint16_t& x) { return reinterpret_cast<const std::byte*>(&x); };
  const std::byte* const sources[] = {bytes(large), bytes(one), bytes(one)};
  uint16_t sum = 0;
  reduce(&sum, sources, 1, ElementType::kFloat16, ReduceOp::kSum);
  EXPECT_EQ(float_of_half(sum), 2050);
}

TEST(ReduceKernels, ANanAnywhereIsSeen) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), one = 1;
  const auto bytes = [](const float& x) { return reinterpret_cast<const std::byte*>(&x); };
  for (const ReduceOp op : kAllOps) {
    for (const bool first : {false, true}) {
      const std::byte* const sources[] = {bytes(first ? nan : one), bytes(first ? one : nan), bytes(one)};
      float result = 0;
      reduce(&result, sources, 1, ElementType::kFloat32, op);
      EXPECT_TRUE(std::isnan(result));
    }
  }
}

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
  for (uint64_t i = 0; i < 200'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(mixed(i)) & (i % 2 == 0 ? 0xffff8000U : ~0U));
    if (std::isnan(value)) continue;
    ASSERT_EQ(bfloat16_of_float(value), ByHandBFloat16(value).bits) << value;
  }
  EXPECT_EQ(bfloat16_of_float(std::numeric_limits<float>::quiet_NaN()), 0x7fc0);
  EXPECT_EQ(bfloat16_of_float(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_of_bfloat16(0x3f80), 1);
}

}  // namespace
}  // namespace weft::fabric
