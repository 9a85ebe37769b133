// Contiguous tensors as the bytes they are, for types that no transport moves.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft::engine {

// A flat tensor over the same memory.
inline at::Tensor as_bytes(const at::Tensor& tensor) { return tensor.view({-1}).view(at::kByte); }

}  // namespace weft::engine
