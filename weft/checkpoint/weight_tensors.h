// Elements of a model's weights as tensors.
//
//   const at::Tensor some = read_elements(files, "h.0.weight", 128, 64);   // 64 of them, flat, in the file's own type
//
// Requires, threads, failure: as WeightFiles::read.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "weft/checkpoint/weight_files.h"

namespace weft::checkpoint {

at::Tensor read_elements(WeightFiles& files, const std::string& name, int64_t first, int64_t count);

}  // namespace weft::checkpoint
