// Built with -O3, so that GCC makes vector code of the loops; see CMakeLists.txt.
#include "weft/engine/int8_blocks.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "weft/base/check.h"
#include "weft/plan/plan.h"

namespace weft::engine {
namespace {

constexpr size_t kBlock = plan::kCompressBlock;
constexpr float kMostCode = 127;
// Of magnitudes as whole numbers: below it they are finite, and larger magnitudes are larger numbers.
constexpr uint32_t kSign = 0x80000000, kInfinity = 0x7f800000;
// 1.5 * 2^23: added and taken away again it leaves the nearest whole number, ties to even, for anything below 2^22.
constexpr float kRounder = 12582912.0F;

struct Block {
  const float* values;
  float* errors;
  int8_t* codes;
  size_t count;
};

uint32_t add_errors(const Block& block, float* wanted) {
  uint32_t largest = 0;
  for (size_t i = 0; i < block.count; ++i) {
    wanted[i] = block.values[i] + block.errors[i];
    largest = std::max(largest, std::bit_cast<uint32_t>(wanted[i]) & ~kSign);
  }
  return largest;
}

void round_block(const Block& block, const float* __restrict wanted, float scale) {
  int8_t* const __restrict codes = block.codes;
  float* const __restrict errors = block.errors;
  const float inverse = 1 / scale;
  for (size_t i = 0; i < block.count; ++i) {
    const float code = (wanted[i] * inverse + kRounder) - kRounder;
    codes[i] = static_cast<int8_t>(static_cast<int32_t>(code));
    errors[i] = wanted[i] - code * scale;
  }
}

// Only in its own place: bytes between parameters must stay 0, since nobody clears them.
float mark_bad_numbers(const Block& block, const float* wanted) {
  for (size_t i = 0; i < block.count; ++i)
    block.codes[i] = (std::bit_cast<uint32_t>(wanted[i]) & ~kSign) >= kInfinity ? 1 : 0;
  return std::numeric_limits<float>::quiet_NaN();
}

// The block's scale.
float compress_block(const Block& block) {
  float wanted[kBlock];
  const uint32_t largest = add_errors(block, wanted);
  const float scale = std::bit_cast<float>(largest) / kMostCode;
  // Its inverse would not be finite.
  const bool too_small = scale < std::numeric_limits<float>::min();
  if (largest < kInfinity && !too_small) {
    round_block(block, wanted, scale);
    return scale;
  }
  if (largest >= kInfinity) return mark_bad_numbers(block, wanted);
  std::fill_n(block.codes, block.count, int8_t{0});
  std::copy_n(wanted, block.count, block.errors);
  return 0;
}

void add_block(const int8_t* __restrict codes, float scale, std::span<float> sums) {
  float* const __restrict into = sums.data();
  // 0 is 0 for any scale, NaN too.
  for (size_t i = 0; i < sums.size(); ++i) into[i] += codes[i] == 0 ? 0 : static_cast<float>(codes[i]) * scale;
}

}  // namespace

void compress(std::span<const float> values, std::span<float> errors, std::byte* out) {
  WEFT_CHECK(values.size() == errors.size() && values.size() % sizeof(float) == 0);
  auto* const codes = reinterpret_cast<int8_t*>(out);
  auto* scale = reinterpret_cast<float*>(out + values.size());
  for (size_t first = 0; first < values.size(); first += kBlock) {
    const size_t count = std::min(kBlock, values.size() - first);
    *scale++ = compress_block({values.data() + first, errors.data() + first, codes + first, count});
  }
}

void add_compressed(const std::byte* in, std::span<float> sums) {
  const auto* const codes = reinterpret_cast<const int8_t*>(in);
  const auto* const scales = reinterpret_cast<const float*>(in + sums.size());
  for (size_t first = 0; first < sums.size(); first += kBlock) {
    add_block(codes + first, scales[first / kBlock], sums.subspan(first, std::min(kBlock, sums.size() - first)));
  }
}

}  // namespace weft::engine
