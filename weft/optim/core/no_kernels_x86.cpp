// For machines of another kind: the portable loops are all there is.
#include "weft/optim/core/kernels_x86_impl.h"

namespace weft::optim::detail {

std::vector<const Kernels*> x86_kernels() { return {}; }

}  // namespace weft::optim::detail
