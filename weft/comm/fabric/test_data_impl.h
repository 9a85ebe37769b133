// For this room's tests: elements out of a counter, the reduction written as plainly as it can be, and what must not be
// left behind.
#pragma once

#include <unistd.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "weft/base/text.h"
#include "weft/comm/fabric/reduce_kernels.h"

namespace weft::fabric {

using Bytes = std::vector<std::byte>;

inline constexpr ElementType kAllTypes[] = {ElementType::kFloat32,  ElementType::kFloat64, ElementType::kFloat16,
                                            ElementType::kBFloat16, ElementType::kInt8,    ElementType::kInt16,
                                            ElementType::kInt32,    ElementType::kInt64,   ElementType::kUInt8};
inline constexpr ReduceOp kAllOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin};

__extension__ using CompilersHalf = _Float16;

// bfloat16 through the definition: the nearest of the two neighbours, the even one when they are equally near.
struct ByHandBFloat16 {
  uint16_t bits = 0;
  ByHandBFloat16() = default;
  explicit ByHandBFloat16(float value) {
    const auto whole = std::bit_cast<uint32_t>(value);
    const uint32_t down = whole >> 16, rest = whole & 0xffffU;
    const bool up = rest > 0x8000U || (rest == 0x8000U && down % 2 == 1);
    bits = static_cast<uint16_t>(std::isnan(value) ? 0x7fc0U : down + (up ? 1 : 0));
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

// Calls `with` with a value of the stored type and one of the type that sums are carried in.
template <typename With>
auto for_type(ElementType type, With with) {
  switch (type) {
    case ElementType::kFloat32: return with(float{}, float{});
    case ElementType::kFloat64: return with(double{}, double{});
    case ElementType::kFloat16: return with(CompilersHalf{}, float{});
    case ElementType::kBFloat16: return with(ByHandBFloat16{}, float{});
    case ElementType::kInt8: return with(int8_t{}, int64_t{});
    case ElementType::kInt16: return with(int16_t{}, int64_t{});
    case ElementType::kInt32: return with(int32_t{}, int64_t{});
    case ElementType::kInt64: return with(int64_t{}, int64_t{});
    case ElementType::kUInt8: break;
  }
  return with(uint8_t{}, int64_t{});
}

inline uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// Numbers of many magnitudes and both signs, so that another order of summation shows in the bits.
inline Bytes elements_of(ElementType type, size_t count, uint64_t seed) {
  return for_type(type, [&]<typename Stored, typename Carried>(Stored, Carried) {
    Bytes bytes(count * sizeof(Stored));
    for (size_t i = 0; i < count; ++i) {
      const uint64_t random = mixed(seed * 1'000'003 + i);
      Stored value{};
      if constexpr (std::is_integral_v<Carried>) {
        value = static_cast<Stored>(random);
      } else {
        const auto fraction = static_cast<Carried>(static_cast<int32_t>(random)) / static_cast<Carried>(1U << 31);
        value = static_cast<Stored>(std::ldexp(fraction, static_cast<int>(random >> 32 & 15) - 6));
      }
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    }
    return bytes;
  });
}

template <typename Carried>
Carried combined_by_hand(Carried a, Carried b, ReduceOp op) {
  if (op == ReduceOp::kSum || op == ReduceOp::kMean) {
    if constexpr (std::is_integral_v<Carried>) {
      return static_cast<Carried>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    }
    return a + b;
  }
  if constexpr (std::is_floating_point_v<Carried>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Carried>::quiet_NaN();
  }
  return op == ReduceOp::kMax ? std::max(a, b) : std::min(a, b);
}

// One element at a time, in order of rank.
inline Bytes reduced_by_hand(const std::vector<Bytes>& sources, ElementType type, ReduceOp op) {
  return for_type(type, [&]<typename Stored, typename Carried>(Stored value, Carried) {
    Bytes result(sources.front().size());
    for (size_t at = 0; at < result.size(); at += sizeof value) {
      const auto load = [&](const Bytes& source) {
        std::memcpy(&value, source.data() + at, sizeof value);
        return static_cast<Carried>(value);
      };
      Carried so_far = load(sources.front());
      for (size_t i = 1; i < sources.size(); ++i) so_far = combined_by_hand(so_far, load(sources[i]), op);
      if (op == ReduceOp::kMean) so_far /= static_cast<Carried>(sources.size());
      value = static_cast<Stored>(so_far);
      std::memcpy(result.data() + at, &value, sizeof value);
    }
    return result;
  });
}

// A run id that no other test on this host uses.
inline std::string fresh_run_id() {
  static std::atomic<int> num_ids{0};
  return cat("test-", ::getpid(), "-", num_ids.fetch_add(1));
}

inline size_t num_open_fds() {
  size_t num_fds = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++num_fds;
  return num_fds;
}

inline size_t num_mapped_segments() {
  size_t num_segments = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    num_segments += line.find("weft-fabric") != std::string::npos ? 1 : 0;
  return num_segments;
}

}  // namespace weft::fabric
