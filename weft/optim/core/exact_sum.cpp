#include "weft/optim/core/exact_sum.h"

#include <bit>
#include <cmath>
#include <limits>

namespace weft::optim {
namespace {

constexpr int kWordBits = 32, kMantissaBits = 52, kMaxExponent = 0x7FF;
constexpr int kLowestBit = -1074;  // of the smallest double: bit 0 of word 0
constexpr size_t kNotFinite = ExactSum::kNumWords - 1;
constexpr uint64_t kWordMask = 0xFFFF'FFFF;

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

}  // namespace weft::optim
