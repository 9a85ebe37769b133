#include "weft/data/token_dataset.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

namespace weft::data {

Tensors TokenDataset::get_batch(std::span<const int64_t> indices) const {
  const int64_t seq = windows_.seq();
  const auto rows = static_cast<int64_t>(indices.size());
  at::Tensor data = at::empty({rows, seq}, at::kLong);
  at::Tensor target = at::empty({rows, seq}, at::kLong);
  std::vector<int64_t> window(static_cast<size_t>(seq + 1));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t index = indices[static_cast<size_t>(row)];
    at_sample(index, [&] { windows_.read(index, window); });
    std::copy_n(window.begin(), seq, data.mutable_data_ptr<int64_t>() + row * seq);
    std::copy_n(window.begin() + 1, seq, target.mutable_data_ptr<int64_t>() + row * seq);
  }
  return {data, target};
}

}  // namespace weft::data
