// How fast this rank's processor is at the moment: the time of a small matrix product that is the same on every rank (slow_rank.h).
//
// Forward and backward are products too, so that what slows them on one core (lowered clocks, a neighbour on its other thread) slows this
// by the same part. It takes some 40 microseconds, with the run before it that fetches the numbers into the cache.
//
// Value with one owner. Threads: one at a time, the one that trains. Failure: none.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft::engine {

class Pace {
 public:
  Pace();
  double measure_us() const;

 private:
  const at::Tensor numbers_, product_;
};

}  // namespace weft::engine
