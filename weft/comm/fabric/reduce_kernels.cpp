// Built with -O3, so that GCC makes vector code of the loops; see CMakeLists.txt.
#include "weft/comm/fabric/reduce_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "weft/base/check.h"
#include "weft/base/half.h"

namespace weft::fabric {
namespace {

// How elements are stored (Stored), carried (Carried) and converted.
template <typename Number>
struct Plain {
  using Stored = Number;
  using Carried = Number;
  static Carried widen(Stored value) { return value; }
  static Stored narrow(Carried value) { return value; }
};
template <typename Number>
struct Whole {
  using Stored = Number;
  using Carried = int64_t;
  static Carried widen(Stored value) { return value; }
  static Stored narrow(Carried value) { return static_cast<Stored>(value); }
};
struct Half {
  using Stored = uint16_t;
  using Carried = float;
  static Carried widen(Stored value) { return float_of_half(value); }
  static Stored narrow(Carried value) { return half_of_float(value); }
};
struct BFloat16 {
  using Stored = uint16_t;
  using Carried = float;
  static Carried widen(Stored value) { return float_of_bfloat16(value); }
  static Stored narrow(Carried value) { return bfloat16_of_float(value); }
};

template <typename Number>
Number add(Number a, Number b) {
  // Unsigned, because a sum of whole numbers may wrap.
  if constexpr (std::is_integral_v<Number>) {
    return static_cast<Number>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

template <ReduceOp Op, typename Number>
Number combine(Number so_far, Number next) {
  if constexpr (Op == ReduceOp::kSum || Op == ReduceOp::kMean) return add(so_far, next);
  bool take = Op == ReduceOp::kMax ? next > so_far : next < so_far;
  if constexpr (std::is_floating_point_v<Number>) take = take | std::isnan(next);
  return take ? next : so_far;
}

// One pass of division takes as long as all the rest; by a power of two, multiplication gives the same bits.
template <typename Number>
bool has_exact_inverse(size_t num_sources) {
  return std::is_floating_point_v<Number> && std::has_single_bit(num_sources);
}

// A block of carried values stays in the first-level cache while every source is added to it.
constexpr size_t kBlock = 1024;

template <typename Format, ReduceOp Op>
void reduce_block(typename Format::Stored* into, std::span<const std::byte* const> sources, size_t first,
                  size_t count) {
  using Stored = Format::Stored;
  using Carried = Format::Carried;
  Carried carried[kBlock];
  const auto* const head = reinterpret_cast<const Stored*>(sources.front()) + first;
  for (size_t i = 0; i < count; ++i) carried[i] = Format::widen(head[i]);
  for (const std::byte* const source : sources.subspan(1)) {
    const auto* const next = reinterpret_cast<const Stored*>(source) + first;
    for (size_t i = 0; i < count; ++i) carried[i] = combine<Op>(carried[i], Format::widen(next[i]));
  }
  const auto num_sources = static_cast<Carried>(sources.size());
  if (Op == ReduceOp::kMean && !has_exact_inverse<Carried>(sources.size())) {
    for (size_t i = 0; i < count; ++i) into[first + i] = Format::narrow(carried[i] / num_sources);
  } else if (Op == ReduceOp::kMean) {
    const Carried part = Carried{1} / num_sources;
    for (size_t i = 0; i < count; ++i) into[first + i] = Format::narrow(carried[i] * part);
  } else {
    for (size_t i = 0; i < count; ++i) into[first + i] = Format::narrow(carried[i]);
  }
}

template <typename Format, ReduceOp Op>
void reduce_all(void* into, std::span<const std::byte* const> sources, size_t count) {
  for (size_t first = 0; first < count; first += kBlock) {
    reduce_block<Format, Op>(static_cast<Format::Stored*>(into), sources, first, std::min(kBlock, count - first));
  }
}

template <typename Format>
void reduce_as(void* into, std::span<const std::byte* const> sources, size_t count, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return reduce_all<Format, ReduceOp::kSum>(into, sources, count);
    case ReduceOp::kMean: return reduce_all<Format, ReduceOp::kMean>(into, sources, count);
    case ReduceOp::kMax: return reduce_all<Format, ReduceOp::kMax>(into, sources, count);
    case ReduceOp::kMin: return reduce_all<Format, ReduceOp::kMin>(into, sources, count);
  }
}

}  // namespace

size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::kInt8:
    case ElementType::kUInt8: return 1;
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
    case ElementType::kInt16: return 2;
    case ElementType::kFloat32:
    case ElementType::kInt32: return 4;
    case ElementType::kFloat64:
    case ElementType::kInt64: return 8;
  }
  return 0;
}

void reduce(void* into, std::span<const std::byte* const> sources, size_t count, ElementType type, ReduceOp op) {
  WEFT_CHECK(!sources.empty());
  switch (type) {
    case ElementType::kFloat32: return reduce_as<Plain<float>>(into, sources, count, op);
    case ElementType::kFloat64: return reduce_as<Plain<double>>(into, sources, count, op);
    case ElementType::kFloat16: return reduce_as<Half>(into, sources, count, op);
    case ElementType::kBFloat16: return reduce_as<BFloat16>(into, sources, count, op);
    case ElementType::kInt8: return reduce_as<Whole<int8_t>>(into, sources, count, op);
    case ElementType::kInt16: return reduce_as<Whole<int16_t>>(into, sources, count, op);
    case ElementType::kInt32: return reduce_as<Whole<int32_t>>(into, sources, count, op);
    case ElementType::kInt64: return reduce_as<Whole<int64_t>>(into, sources, count, op);
    case ElementType::kUInt8: return reduce_as<Whole<uint8_t>>(into, sources, count, op);
  }
}

}  // namespace weft::fabric
