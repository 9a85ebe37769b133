// Decimal gigabytes, as GPUs and configs are spoken of: 5e8 elements of bf16 are 1 GB.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace weft::doctor {

inline std::string gigabytes(double bytes) {
  std::array<char, 32> text;
  const double size = bytes / 1e9;
  std::snprintf(text.data(), text.size(), size < 0.095 ? "%.3f GB" : size < 99.5 ? "%.1f GB" : "%.0f GB", size);
  return text.data();
}

}  // namespace weft::doctor
