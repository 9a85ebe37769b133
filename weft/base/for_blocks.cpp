// Built with -fopenmp; see CMakeLists.txt. torch's own parallel_for is a header that would want omp.h, and runs one
// thread without a word where its user was compiled without OpenMP.
#include "weft/base/for_blocks.h"

#include <algorithm>

namespace weft {

void for_blocks(size_t count, size_t block, const std::function<void(size_t first, size_t size)>& body) {
  const size_t num_blocks = (count + block - 1) / block;
  if (num_blocks <= 1) {
    if (count > 0) body(0, count);
    return;
  }
#pragma omp parallel for schedule(static)
  for (size_t i = 0; i < num_blocks; ++i) body(i * block, std::min(block, count - i * block));
}

}  // namespace weft
