#include "weft/matmul/kernels_impl.h"

namespace weft::matmul::detail {

const Kernel* x86_kernel() { return nullptr; }

}  // namespace weft::matmul::detail
