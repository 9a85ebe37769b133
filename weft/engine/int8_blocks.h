// Numbers as int8: each block of plan::kCompressBlock has one fp32 scale, the largest magnitude in it / 127, so that
// rounding is off by half a scale at most. What rounding leaves over is kept by the caller and added the next time:
// over many steps nothing is lost, only late.
//
// A number that is not finite arrives as NaN, so that whoever looks at the sum sees it, and the rest of its block as 0.
// Errors of such a block stay as they were: one bad step must not spoil those after it. A block too small for a scale
// (below 1e-36) is kept whole for the next time.
//
// Plain arithmetic in a fixed order, ties to even: the same bits on every machine. Threads: any, on memory of one's
// own. Failure: none.
//
// On the wire: the int8 of a run of elements, then the scales of its blocks; the last block may be short. All ranks run
// the same weft (agree.h), so this may change from version to version.
#pragma once

#include <cstddef>
#include <span>

namespace weft::engine {

// Writes values + errors to `out` and leaves in `errors` what that was off by. Requires: equal sizes, a multiple of 4;
// out has plan::compressed_bytes() of it.
void compress(std::span<const float> values, std::span<float> errors, std::byte* out);

// Adds what is written at `in` to the sums.
void add_compressed(const std::byte* in, std::span<float> sums);

}  // namespace weft::engine
