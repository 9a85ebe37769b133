// Updates and sums of squares through weft's own kernels on a CUDA device. Internal to the room.
#pragma once

#include <compare>
#include <cstdint>
#include <span>

#include "weft/optim/device_arguments_impl.h"
#include "weft/optim/device_program.h"
#include "weft/optim/optimizer_impl.h"

namespace weft::optim {

// The text of device_kernels.cu, after those of the headers that it shares with us.
extern const char* const kDeviceKernels;

// What a program is compiled for.
struct DeviceTypes {
  Element param = Element::kFloat32, state = Element::kFloat32, grad = Element::kFloat32, copy = Element::kFloat32;
  auto operator<=>(const DeviceTypes&) const = default;
};

// nullptr: not on this device or machine.
const DeviceProgram* device_kernels(c10::Device device, const UpdateSettings& settings = AdamSettings(),
                                    DeviceTypes types = {});

// As step_with_torch. False: not on this device or machine, or this optimizer; nothing was done.
bool step_with_device_kernels(const UpdateSettings& settings, std::span<SliceState> slices, const TorchScale& by,
                              int64_t step);

// One double on the device: the sum of the squares of all elements. Undefined: not on this device or machine. Requires: some parts.
at::Tensor sum_with_device_kernels(at::TensorList parts);

}  // namespace weft::optim
