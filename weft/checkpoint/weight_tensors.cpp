#include "weft/checkpoint/weight_tensors.h"

#include <ATen/ops/empty.h>

#include "weft/checkpoint/dtypes.h"

namespace weft::checkpoint {

at::Tensor read_elements(WeightFiles& files, const std::string& name, int64_t first, int64_t count) {
  at::Tensor out = at::empty({count}, at::TensorOptions().dtype(dtype_of(files.find(name)->dtype)));
  files.read(name, static_cast<uint64_t>(first), {static_cast<std::byte*>(out.mutable_data_ptr()), out.nbytes()});
  return out;
}

}  // namespace weft::checkpoint
