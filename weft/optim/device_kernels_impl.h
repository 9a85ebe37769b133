// Updates and sums of squares through weft's own kernels on a CUDA device. Internal to the room.
#pragma once

#include <compare>
#include <cstdint>
#include <span>

#include "weft/optim/device_program.h"
#include "weft/optim/optimizer_impl.h"

namespace weft::optim {

// The text of device_kernels.cu.
extern const char* const kDeviceKernels;

// What a program is compiled for.
struct DeviceTypes {
  Element param = Element::kFloat32, state = Element::kFloat32, grad = Element::kFloat32, copy = Element::kFloat32;
  auto operator<=>(const DeviceTypes&) const = default;
};

// nullptr: not on this device or machine.
const DeviceProgram* device_kernels(c10::Device device, const UpdateSettings& settings = AdamSettings(),
                                    DeviceTypes types = {});

// The same as device_kernels.cu declares; kernels take them by value.
namespace on_device {

struct Slice {
  void* param = nullptr;
  const void* grad = nullptr;
  void* momentum = nullptr;
  void* variance = nullptr;
  void* copy = nullptr;
  int64_t count = 0;
  uint32_t first_chunk = 0;
  bool aligned = false;
};

constexpr int kMaxSlices = 48;
struct Batch {
  Slice slices[kMaxSlices];
  int32_t num_slices = 0;
};
// What every device takes as parameters of one launch.
static_assert(sizeof(Batch) + 256 <= 4096);

struct OnDevice {
  const float* grad_scale = nullptr;
  const float* left_out = nullptr;
  const float* by_step = nullptr;
};

enum class Kind : uint8_t { kAdam, kSgd, kLion, kAdagrad };

struct ByStep {
  double lr = 0, beta1 = 0, beta2 = 0, lr_decay = 0;
  int64_t step = 0;
  Kind kind = Kind::kAdam;
  bool bias_correction = true;
};

constexpr int kThreads = 256, kChunk = kThreads * 16, kSumThreads = 1024;

}  // namespace on_device

// As step_with_torch. False: not on this device or machine, or this optimizer; nothing was done.
bool step_with_device_kernels(const UpdateSettings& settings, std::span<SliceState> slices, const TorchScale& by,
                              int64_t step);

// One double on the device: the sum of the squares of all elements. Undefined: not on this device or machine. Requires: some parts.
at::Tensor sum_with_device_kernels(at::TensorList parts);

}  // namespace weft::optim
