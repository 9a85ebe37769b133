// Numbers with units as people type them, and back. Reading is exact decimal arithmetic: "0.3K" is 300, not 299.
//
//   parse_count   5e8, 7B, 1.5K                    K M B T are powers of 1000; the result must be whole
//   parse_bytes   512, 24G, 1.5GiB, 25MB           K M G T and KiB MiB GiB TiB are powers of 1024, KB MB GB TB of 1000
//   parse_rate    10gbit, 1gbps, 12GB/s, 3GiB/s    bit and bps count bits, B/s bytes; k m g t are powers of 1000
//   parse_duration  90s, 250ms, 1h30m, 1.5h        d h m s ms us ns, largest first
//
// One or more spaces may stand before a unit, so that what format_* prints can be read back. Case matters only where it
// tells bits from bytes (a rate in "gb/s" is refused). Part of a byte or of a nanosecond is dropped.
//
// Threads: free functions, any thread. Failure: Error(kInput) with the text and the accepted forms; negative numbers,
// NaN, overflow, separators such as '_' and ',' and anything left over are refused.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/base/error.h"

namespace weft {

Result<int64_t> parse_count(std::string_view text);
Result<uint64_t> parse_bytes(std::string_view text);
// Bytes per second.
Result<double> parse_rate(std::string_view text);
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

std::string format_count(int64_t count);                         // 999, 17.0M, 1.5B
std::string format_bytes(uint64_t bytes);                        // 512 B, 1.5 GiB
std::string format_rate(double bytes_per_s);                     // 12.0 GB/s; "n/a" unless finite and not negative
std::string format_duration(std::chrono::nanoseconds duration);  // 820 ms, 4.2 s, 1m 05s, 2h 03m, 3d 04h

}  // namespace weft
