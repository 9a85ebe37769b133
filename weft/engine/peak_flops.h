// What matrix products reach on a device: the limit that model FLOPs utilisation (MFU) is a part of.
//
// Free function, any thread; takes some 100 ms, with the threads that torch has now. No failure but torch's own.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace weft::engine {

// FLOP/s, the best of a few tries.
double measure_peak_flops(c10::Device device, c10::ScalarType type);

}  // namespace weft::engine
