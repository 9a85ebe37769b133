#include "weft/comm/fabric/reduce_kernels.h"

#include <gtest/gtest.h>

#include <limits>

#include "weft/base/half.h"
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

}  // namespace
}  // namespace weft::fabric
