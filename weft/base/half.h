// The two 16-bit floating-point formats as bits: fp16 (IEEE binary16) and bf16 (the upper half of an fp32), to and from
// fp32. Bit for bit as IEEE 754 has it, rounding to the nearest even; NaN becomes one quiet NaN when narrowed.
//
// Branches are written as selections and everything is inlined: that is what the compiler can turn into vector code,
// for whatever instructions the caller is compiled for. Pure functions, any thread, no failure.
#pragma once

#include <bit>
#include <cstdint>

namespace weft {

namespace detail {
constexpr uint32_t kFloatMantissaBits = 23, kHalfMantissaBits = 10;
constexpr uint32_t kMantissaShift = kFloatMantissaBits - kHalfMantissaBits;
constexpr uint32_t kBiasGap = (127U - 15U) << kFloatMantissaBits;
}  // namespace detail

// Subnormals go through whole numbers, so that a thread that flushes them to zero gets the same bits.
[[gnu::always_inline]] inline float float_of_half(uint16_t half) {
  const uint32_t magnitude = half & 0x7fffU, sign = (half & 0x8000U) << 16U;
  const auto subnormal = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24F);
  const uint32_t special_gap = magnitude >= 0x7c00U ? detail::kBiasGap : 0;
  const uint32_t normal = (magnitude << detail::kMantissaShift) + detail::kBiasGap + special_gap;
  return std::bit_cast<float>((magnitude < 0x400U ? subnormal : normal) | sign);
}

[[gnu::always_inline]] inline uint16_t half_of_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffU, sign = (bits >> 16U) & 0x8000U;
  const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> detail::kMantissaShift) & 1U);
  const uint32_t normal = (rounded - detail::kBiasGap) >> detail::kMantissaShift;
  // One unit in the last place of 0.5 is one subnormal step of a half: the addition itself rounds.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<uint32_t>(0.5F);
  const uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;   // 2^-14
  const uint32_t in_range = magnitude >= 0x477ff000U ? 0x7c00U : finite;  // 65520, the first that rounds to infinity
  const uint32_t result = magnitude > 0x7f800000U ? 0x7e00U : in_range;
  return static_cast<uint16_t>(result | sign);
}

[[gnu::always_inline]] inline float float_of_bfloat16(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16U);
}

[[gnu::always_inline]] inline uint16_t bfloat16_of_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
  return static_cast<uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? 0x7fc0U : rounded);
}

}  // namespace weft
