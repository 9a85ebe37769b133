// The types of tensors as safetensors spells them: F32, BF16, I64, ...
//
// Pure functions. Failure: Error(kInput) that names the tensor whose type has no spelling.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>

namespace weft::checkpoint {

std::string dtype_name(at::ScalarType type, const std::string& tensor);
// Requires: dtype_bytes() knows it (safetensors_header.h).
at::ScalarType dtype_of(std::string_view name);

}  // namespace weft::checkpoint
