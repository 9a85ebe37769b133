// The ways to make an update. Internal to the room.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "weft/optim/optimizer.h"

namespace weft::optim {

// What Lamb has to know of the parameters that slices are parts of.
struct WholeParameters {
  int64_t count = 0;
  AddOverRanks add = {};
  LambSums* sums = nullptr;  // kept from step to step; null: of this step alone
};

// Everywhere here `step` is the optimizer's, which counts from 1: a slice that joined later has its own.
inline int64_t own_step(int64_t step, const SliceState& state) { return step - state.slice.since; }

// Requires: slices on the CPU, checked shapes.
void step_with_kernels(const UpdateSettings& settings, std::span<SliceState> slices, double grad_scale, int64_t step,
                       const WholeParameters& whole = {});

// What gradients are multiplied by on a device: a number, or a tensor there that nobody has looked at yet.
struct TorchScale {
  double value = 1;
  at::Tensor tensor = {};  // undefined: `value`
  at::Tensor left_out = {},
             num_left_out = {};  // 1 where the update must not happen; how often that was, this one included
};

// Any device, the same one for all slices, of which there may be none. `step` counts those left out too.
void step_with_torch(const UpdateSettings& settings, std::span<SliceState> slices, const TorchScale& by, int64_t step,
                     const WholeParameters& whole = {});

// Lamb's part of the two. `grads`: one a slice, in fp32, scaled; `step` counts updates made.
void lamb_with_kernels(const LambSettings& settings, std::span<SliceState> slices, double grad_scale, int64_t step,
                       const WholeParameters& whole);
void lamb_with_torch(const LambSettings& settings, std::span<SliceState> slices, at::TensorList grads, int64_t step,
                     const WholeParameters& whole);

// Long enough that handing out blocks costs nothing beside the work, a multiple of any vector and cache line.
constexpr size_t kThreadBlock = size_t{64} * 1024;

Slice kernel_slice(const SliceState& state, double grad_scale);

Element element_of(const at::Tensor& tensor);

}  // namespace weft::optim
