// The bytes of a tensor as they lie in memory. Pure functions. Requires: the tensor is on the CPU and contiguous.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

namespace weft::checkpoint {

inline std::span<const std::byte> data_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace weft::checkpoint
