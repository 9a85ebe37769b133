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

TEST(ExactSum, WhatIsNotFiniteShows) {
  EXPECT_TRUE(std::isnan(sum_of({1, std::numeric_limits<double>::infinity(), 2})));
  EXPECT_TRUE(std::isnan(sum_of({std::nan("")})));
  const double most = std::numeric_limits<double>::max();
  EXPECT_TRUE(std::isinf(sum_of({most, most}))) << "no double is as large";
}

}  // namespace
}  // namespace weft::optim
