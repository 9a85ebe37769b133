// The loops compiled for vector units an x86-64 machine may have: kernels_x86.cpp, or its null twin elsewhere.
#pragma once

#include <vector>

#include "weft/optim/core/kernels.h"

namespace weft::optim::detail {

// Those this machine can run, the best last.
std::vector<const Kernels*> x86_kernels();

}  // namespace weft::optim::detail
