#include "weft/engine/int8_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "weft/plan/plan.h"

namespace weft::engine {
namespace {

using Floats = std::vector<float>;

constexpr size_t kBlock = plan::kCompressBlock;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// Magnitudes that differ from block to block by powers of ten, as those of layers do.
Floats random_numbers(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Floats out(count);
  for (size_t i = 0; i < count; ++i)
    out[i] = normal(generator) * std::pow(10.0F, static_cast<float>(i / kBlock % 7) - 3.0F);
  return out;
}

std::vector<std::byte> compressed(const Floats& values, Floats& errors) {
  std::vector<std::byte> out(static_cast<size_t>(plan::compressed_bytes(static_cast<int64_t>(values.size()))));
  compress(values, errors, out.data());
  return out;
}

Floats there_and_back(const Floats& values, Floats& errors) {
  Floats out(values.size(), 0);
  add_compressed(compressed(values, errors).data(), out);
  return out;
}

float largest_in_block(const Floats& values, size_t i) {
  float out = 0;
  for (size_t j = i / kBlock * kBlock; j < std::min(values.size(), (i / kBlock + 1) * kBlock); ++j)
    out = std::max(out, std::abs(values[j]));
  return out;
}

TEST(Int8Blocks, ANumberIsOffByHalfAScaleAtMostAndTheErrorSaysByHowMuch) {
  for (const size_t count : {0, 4, 32, 256, 260, 1024, 3200}) {
    const Floats values = random_numbers(count, 1);
    Floats errors(count, 0);
    const Floats back = there_and_back(values, errors);
    for (size_t i = 0; i < count; ++i) {
      const float scale = largest_in_block(values, i) / 127;
      EXPECT_LE(std::abs(back[i] - values[i]), scale * 0.50001F) << i << " of " << count;
      EXPECT_NEAR(values[i] - back[i], errors[i], scale * 1e-5F) << i << " of " << count;
    }
  }
}

TEST(Int8Blocks, WholeNumbersOfTheScaleStayAndTiesGoToEven) {
  const Floats values = {127, -127, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 3};
  Floats errors(8, 0);
  EXPECT_EQ(there_and_back(values, errors), (Floats{127, -127, 0, 2, 2, 0, -2, 3}));
  EXPECT_EQ(errors, (Floats{0, 0, 0.5F, -0.5F, 0.5F, -0.5F, 0.5F, 0}));
}

// Without what is left over, numbers below half a scale would never arrive.
TEST(Int8Blocks, TheMeanOfManyTimesConverges) {
  const Floats values = random_numbers(512, 2);
  Floats errors(values.size(), 0);
  std::vector<double> sums(values.size(), 0);
  for (int times = 1; times <= 1000; ++times) {
    const Floats back = there_and_back(values, errors);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += back[i];
    if (times != 10 && times != 1000) continue;
    for (size_t i = 0; i < sums.size(); ++i) {
      const double scale = largest_in_block(values, i) / 127;
      EXPECT_NEAR(sums[i] / times, values[i], 0.51 * scale / times + 1e-6 * std::abs(values[i])) << i;
    }
  }
}

TEST(Int8Blocks, WhatIsNotFiniteArrivesAsSuchAndLeavesNothingBehind) {
  for (const float bad : {kInf, -kInf, kNan, -kNan}) {
    Floats values = random_numbers(3 * kBlock, 3);
    values[kBlock + 17] = bad;
    Floats errors(values.size(), 0.25F);
    const Floats back = there_and_back(values, errors);
    for (size_t i = 0; i < values.size(); ++i) {
      const bool spoilt = i / kBlock == 1;
      EXPECT_EQ(std::isfinite(back[i]), i != kBlock + 17) << i;
      EXPECT_TRUE(!spoilt || i == kBlock + 17 || back[i] == 0) << i;
      EXPECT_TRUE(!spoilt || errors[i] == 0.25F) << "the next time is not to be spoilt too";
    }
  }
}

TEST(Int8Blocks, TheSmallestAndTheLargestNumbers) {
  constexpr float kTiny = std::numeric_limits<float>::denorm_min(), kLeast = std::numeric_limits<float>::min();
  Floats errors(4, 0);
  EXPECT_EQ(there_and_back({kTiny, -kTiny, 0, kLeast}, errors), (Floats{0, 0, 0, 0}));
  EXPECT_EQ(errors, (Floats{kTiny, -kTiny, 0, kLeast})) << "kept for the next time";
  errors.assign(4, 0);
  const Floats back = there_and_back({1e38F, -3e38F, 0, 1e30F}, errors);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isfinite(back[i]) && std::isfinite(errors[i])) << i;
  EXPECT_NEAR(back[1] / -3e38F, 1, 1e-6);
}

TEST(Int8Blocks, SumsAreAddedTo) {
  const Floats values = random_numbers(320, 4);
  Floats first(320, 0), second(320, 0), sums(320, 1);
  const Floats back = there_and_back(values, first);
  add_compressed(compressed(values, second).data(), sums);
  for (size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i], 1 + back[i]);
  EXPECT_EQ(first, second);
}

TEST(Int8Blocks, AQuarterOfTheBytes) {
  EXPECT_EQ(plan::compressed_bytes(1 << 20), (1 << 20) + (1 << 14));
  EXPECT_LT(static_cast<double>(plan::compressed_bytes(1 << 20)) / (4 << 20), 0.254);
}

}  // namespace
}  // namespace weft::engine
