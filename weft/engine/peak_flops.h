// What matrix products reach on a device: the limit that model FLOPs utilisation (MFU) is a part of.
//
// Free functions, any thread; takes some 100 ms, with the threads that torch has now. No failure but torch's own.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <functional>

namespace weft::engine {

struct RateTrial {
  int warm_ups = 1;                 // runs before, which nobody times
  int tries = 30, least_tries = 3;  // at most; also where time is short
  double most_s = 0.2;              // no try begins later than this after the warm-ups
};

// Work per second in the quickest of the tries.
double best_rate(const RateTrial& trial, double work, const std::function<void()>& run);

// FLOP/s.
double measure_peak_flops(c10::Device device, c10::ScalarType type);

}  // namespace weft::engine
