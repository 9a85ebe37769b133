// Adds non-negative doubles without rounding, so that a sum does not depend on the order of its terms, on how they are shared
// out to threads and ranks, or on who adds the parts up.
//
//   ExactSum sum;
//   sum.add(x);                         // and the words of other ranks' sums, added as integers
//   const double total = sum.value();   // rounded here, once
//
// A fixed-point number of 2,112 bits in words of 32, each in 64 bits: room for 2^31 terms before words overflow.
//
// A value: any thread, one at a time. Failure: none; a term that is not finite makes the value NaN.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace weft::optim {

class ExactSum {
 public:
  static constexpr size_t kNumWords = 67;  // the last counts terms that are not finite

  // Requires: not negative, or not finite.
  void add(double term);
  void add(const ExactSum& other);
  double value() const;
  // Leaves less than 2^32 in each word. Words are then exact as doubles too, and so are their sums over many ranks.
  void carry();

  std::span<int64_t, kNumWords> words() { return words_; }
  std::span<const int64_t, kNumWords> words() const { return words_; }

 private:
  std::array<int64_t, kNumWords> words_ = {};
};

// Adds the square of each value: no rounding at all, so a sum depends on nothing but the values, wherever they are cut.
// After carry() only kNumSquareWords words from kFirstSquareWord on, and the last, can be other than 0.
void add_squares(ExactSum& sum, std::span<const float> values);
constexpr size_t kFirstSquareWord = 24, kNumSquareWords = 20;  // 2^-306 to 2^334: a square is 2^-298 to 2^256

}  // namespace weft::optim
