// Which kernels this build has for which processors.
#pragma once

#include "weft/matmul/product.h"

namespace weft::matmul::detail {

// Null where the processor has no vectors of 512 bits, and on other processors than x86.
const Kernel* x86_kernel();

}  // namespace weft::matmul::detail
