// The seam between the training loop and whatever turns a loss into new weights. Here it is libtorch's fused AdamW in one
// process; the engine takes this place when several ranks train together.
//
// Owns the optimizer state, not the parameters. Threads: the training thread only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/checkpoint/safetensors.h"

namespace weft::cli {

struct StateBytes {
  int64_t params = 0;
  int64_t grads = 0;
  int64_t optimizer = 0;
};

class Updater {
 public:
  virtual ~Updater() = default;

  // Adds the gradient of `loss` to what this step has so far.
  virtual void backward(const at::Tensor& loss) = 0;
  // Updates the parameters and forgets the gradients.
  virtual void step(double lr) = 0;

  // The most each kind of state takes, in bytes.
  virtual StateBytes state_bytes() const = 0;
  // All that a resumed run needs beside the weights: live tensors, to save from and to load into.
  virtual checkpoint::NamedTensors state() = 0;
};

// AdamW as torch.optim.AdamW(fused=True) computes it: betas 0.9 and 0.999, eps 1e-8, decoupled weight decay 0.01.
std::unique_ptr<Updater> make_fused_adamw(checkpoint::NamedTensors parameters);

}  // namespace weft::cli
