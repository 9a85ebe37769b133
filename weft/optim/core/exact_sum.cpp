#include "weft/optim/core/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace weft::optim {
namespace {

constexpr int kWordBits = 32, kMantissaBits = 52, kMaxExponent = 0x7FF;
constexpr int kLowestBit = -1074;  // of the smallest double: bit 0 of word 0
constexpr size_t kNotFinite = ExactSum::kNumWords - 1;
constexpr uint64_t kWordMask = 0xFFFF'FFFF;

// --- Squares of fp32 -------------------------------------------------------------------------------------------------

constexpr size_t kNumExponents = 256;
constexpr size_t kSquaresAtOnce = size_t{1} << 16;  // squares of 48 bits: no more fit into 64

// By exponent, the squares of the mantissas as integers. Rows are taken in turn: neighbours often have the same exponent, and
// the next need not wait for the last.
struct Squares {
  static constexpr size_t kNumRows = 2;
  std::array<std::array<uint64_t, kNumExponents>, kNumRows> rows = {};

  void add(float value, size_t row) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t exponent = bits >> 23 & 0xFF, fraction = bits & 0x7F'FFFF;
    const uint64_t mantissa = fraction | (exponent == 0 ? 0U : 0x80'0000U);
    rows[row][exponent] += mantissa * mantissa;
  }
  uint64_t of(size_t exponent) const { return rows[0][exponent] + rows[1][exponent]; }
};

void add_in_halves(ExactSum& sum, uint64_t integer, int power) {
  sum.add(std::ldexp(static_cast<double>(integer & kWordMask), power));
  sum.add(std::ldexp(static_cast<double>(integer >> kWordBits), power + kWordBits));
}

void add_some_squares(ExactSum& sum, std::span<const float> values) {
  Squares squares;
  for (size_t i = 0; i < values.size(); ++i) squares.add(values[i], i % Squares::kNumRows);
  for (size_t exponent = 0; exponent + 1 < kNumExponents; ++exponent) {
    if (squares.of(exponent) == 0) continue;
    const int unit = std::max(static_cast<int>(exponent), 1) - 150;  // of the mantissa as an integer
    add_in_halves(sum, squares.of(exponent), 2 * unit);
  }
  if (squares.of(kNumExponents - 1) != 0) sum.add(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

void ExactSum::add(double term) {
  const auto bits = std::bit_cast<uint64_t>(term);
  const auto exponent = static_cast<int>(bits >> kMantissaBits) & kMaxExponent;
  if (exponent == kMaxExponent) {
    ++words_[kNotFinite];
    return;
  }
  const uint64_t fraction = bits & ((uint64_t{1} << kMantissaBits) - 1);
  const uint64_t mantissa = exponent == 0 ? fraction : fraction | uint64_t{1} << kMantissaBits;
  const auto first_bit = static_cast<size_t>(exponent == 0 ? 0 : exponent - 1);
  const size_t shift = first_bit % kWordBits;
  const uint64_t low = mantissa << shift;  // 53 bits and a shift below 32: 84 at most
  const uint64_t high = shift == 0 ? 0 : mantissa >> (64 - shift);
  int64_t* const word = &words_[first_bit / kWordBits];
  word[0] += static_cast<int64_t>(low & kWordMask);
  word[1] += static_cast<int64_t>(low >> kWordBits);
  word[2] += static_cast<int64_t>(high);
}

void ExactSum::add(const ExactSum& other) {
  for (size_t i = 0; i < kNumWords; ++i) words_[i] += other.words_[i];
}

double ExactSum::value() const {
  if (words_[kNotFinite] != 0) return std::numeric_limits<double>::quiet_NaN();
  // With carries done there is one way to write the number, so what follows depends on it alone.
  double sum = 0;
  int64_t carry = 0;
  for (size_t i = 0; i < kNotFinite; ++i) {
    const int64_t whole = words_[i] + carry;
    carry = whole >> kWordBits;
    const auto word = static_cast<double>(static_cast<uint64_t>(whole) & kWordMask);
    sum += std::ldexp(word, static_cast<int>(i) * kWordBits + kLowestBit);
  }
  return carry == 0 ? sum : std::numeric_limits<double>::infinity();
}

void ExactSum::carry() {
  for (size_t i = 0; i + 1 < kNotFinite; ++i) {
    words_[i + 1] += words_[i] >> kWordBits;
    words_[i] &= static_cast<int64_t>(kWordMask);
  }
}

void add_squares(ExactSum& sum, std::span<const float> values) {
  for (; values.size() > kSquaresAtOnce; values = values.subspan(kSquaresAtOnce)) {
    add_some_squares(sum, values.first(kSquaresAtOnce));
  }
  add_some_squares(sum, values);
}

}  // namespace weft::optim
