// For this room's tests: spans and times in few words.
#pragma once

#include <cstdint>

#include "weft/monitor/span.h"

namespace weft {

inline constexpr int64_t kMs = 1'000'000;  // in nanoseconds

inline SpanEvent span_of(SpanCategory category, int64_t start_ns, int64_t end_ns, int64_t value = 0) {
  return {.name = "x", .category = category, .value = value, .start_ns = start_ns, .end_ns = end_ns};
}

}  // namespace weft
