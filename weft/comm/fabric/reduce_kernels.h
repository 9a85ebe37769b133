// Elementwise reduction of several buffers into one, in the order the buffers are given: the ranks' order. The result
// for an element depends on nothing but the elements at its place, so cutting the work differently changes no bit.
//
// Sums of half types are carried in fp32 and rounded once, to the nearest even; whole numbers are carried in 64 bits and
// wrap as two's complement when stored. A mean is the sum divided by the number of buffers (whole numbers: towards 0).
// NaN in, NaN out, also for max and min. Threads: pure functions. Failure: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::fabric {

enum class ElementType : uint8_t { kFloat32, kFloat64, kFloat16, kBFloat16, kInt8, kInt16, kInt32, kInt64, kUInt8 };
enum class ReduceOp : uint8_t { kSum, kMean, kMax, kMin };

size_t element_bytes(ElementType type);

// `into` may be one of the sources; apart from that nothing overlaps. All pointers are aligned to the element.
// Requires: at least one source.
void reduce(void* into, std::span<const std::byte* const> sources, size_t count, ElementType type, ReduceOp op);

}  // namespace weft::fabric
