#include "weft/optim/core/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace weft::optim {
namespace {

double sum_of(const std::vector<double>& terms) {
  ExactSum sum;
  for (const double term : terms) sum.add(term);
  return sum.value();
}

TEST(ExactSum, OfOneTermIsTheTerm) {
  const double terms[] = {0.0,
                          1.0,
                          1.5,
                          1e-300,
                          5e-324,
                          1e-310,
                          std::numeric_limits<double>::min(),
                          1e300,
                          0x1p52,
                          0x1p53,
                          0.1,
                          1 / 3.0,
                          std::numeric_limits<double>::max()};
  for (const double term : terms) EXPECT_EQ(sum_of({term}), term);
}

TEST(ExactSum, KeepsWhatPlainAdditionLoses) {
  EXPECT_EQ(sum_of({0x1p60, 1, 1}), 0x1p60) << "too small to show";
  std::vector<double> terms(1 << 12, 1.0);
  terms.push_back(0x1p60);
  EXPECT_EQ(sum_of(terms), 0x1p60 + 0x1p12);
  EXPECT_EQ(std::accumulate(terms.rbegin(), terms.rend(), 0.0), 0x1p60) << "one at a time they are lost";
}

TEST(ExactSum, DoesNotDependOnOrderOrOnWhoAdds) {
  std::mt19937_64 random(1);
  std::vector<double> terms;
  for (int i = 0; i < 5000; ++i) {
    terms.push_back(std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 400) - 200));
  }
  const double expected = sum_of(terms);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(terms.begin(), terms.end(), random);
    EXPECT_EQ(sum_of(terms), expected);
    ExactSum parts[3], whole;
    for (size_t i = 0; i < terms.size(); ++i) parts[random() % 3].add(terms[i]);
    for (const ExactSum& part : parts) {
      for (size_t i = 0; i < ExactSum::kNumWords; ++i) whole.words()[i] += part.words()[i];
    }
    EXPECT_EQ(whole.value(), expected);
  }
}

TEST(ExactSum, IsCloseToThePlainSum) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> any(0, 1);
  std::vector<double> terms(10000);
  for (double& term : terms) term = any(random);
  const double plain = std::accumulate(terms.begin(), terms.end(), 0.0);
  EXPECT_NEAR(sum_of(terms), plain, 1e-10 * plain);
}

TEST(ExactSum, CarriesChangeTheWordsAndNotTheNumber) {
  ExactSum sum;
  for (int i = 0; i < 1000; ++i) sum.add(1e9 + i);
  const double before = sum.value();
  sum.carry();
  EXPECT_EQ(sum.value(), before);
  for (const int64_t word : sum.words()) EXPECT_LT(word, int64_t{1} << 32);
}

std::vector<float> any_floats(size_t count) {
  std::mt19937_64 random(3);
  std::vector<float> out(count);
  for (float& x : out) {
    x = std::ldexp(static_cast<float>(random() >> 40) - 0x1p23F, static_cast<int>(random() % 250) - 150);
  }
  return out;
}

double squares_one_by_one(const std::vector<float>& values) {
  ExactSum sum;
  for (const float value : values) sum.add(static_cast<double>(value) * static_cast<double>(value));
  return sum.value();
}

TEST(ExactSum, OfSquaresIsThatOfTheirDoubles) {
  using Limits = std::numeric_limits<float>;
  for (const size_t count : {0, 1, 1000, 65536, 65537, 200'000}) {
    const std::vector<float> values = any_floats(count);
    ExactSum sum;
    add_squares(sum, values);
    EXPECT_EQ(sum.value(), squares_one_by_one(values)) << count;
  }
  const std::vector<float> ends = {Limits::max(), Limits::denorm_min(), -0.0F, Limits::min(), -Limits::max()};
  ExactSum sum;
  add_squares(sum, ends);
  EXPECT_EQ(sum.value(), squares_one_by_one(ends));
}

TEST(ExactSum, OfSquaresUsesFewWordsAndCanBeCutAnywhere) {
  using Limits = std::numeric_limits<float>;
  std::vector<float> values(100'000, Limits::max());
  values[5] = Limits::denorm_min();
  ExactSum whole, parts;
  add_squares(whole, values);
  add_squares(parts, std::span(values).first(333));
  add_squares(parts, std::span(values).subspan(333));
  whole.carry(), parts.carry();
  EXPECT_TRUE(std::ranges::equal(whole.words(), parts.words()));
  for (size_t i = 0; i < ExactSum::kNumWords; ++i) {
    const bool used = i >= kFirstSquareWord && i < kFirstSquareWord + kNumSquareWords;
    EXPECT_TRUE(used || whole.words()[i] == 0) << i;
  }
}

TEST(ExactSum, OfSquaresShowsWhatIsNotFinite) {
  for (const float poison : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    ExactSum sum;
    add_squares(sum, std::vector<float>{1, poison, 2});
    EXPECT_TRUE(std::isnan(sum.value()));
  }
}

TEST(ExactSum, WhatIsNotFiniteShows) {
  EXPECT_TRUE(std::isnan(sum_of({1, std::numeric_limits<double>::infinity(), 2})));
  EXPECT_TRUE(std::isnan(sum_of({std::nan("")})));
  const double most = std::numeric_limits<double>::max();
  EXPECT_TRUE(std::isinf(sum_of({most, most}))) << "no double is as large";
}

}  // namespace
}  // namespace weft::optim
