// Bytes one GPU holds for a model under a config, without activations: 16-bit training keeps 2 B parameters, 2 B gradients
// and 12 B of optimizer state (fp32 master and two moments) per parameter; fp32 training 4 + 4 + 8. Pure arithmetic.
#pragma once

#include "weft/config/resolved.h"

namespace weft::doctor {

struct MemoryEstimate {
  double params_bytes = 0;
  double grads_bytes = 0;
  double optimizer_bytes = 0;
  double buckets_bytes = 0;
  double host_bytes = 0;  // of this rank: what offload moved there

  double gpu_bytes() const { return params_bytes + grads_bytes + optimizer_bytes + buckets_bytes; }
};

MemoryEstimate estimate_memory(const config::Resolved& resolved, double params, int64_t world);

}  // namespace weft::doctor
