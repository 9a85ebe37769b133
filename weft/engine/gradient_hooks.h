// Tells when autograd has added a gradient to a parameter. The only place that touches autograd's own classes.
//
// Ownership: the hooks end with this object; parameters are shared. Threads: `ready` runs on the thread that runs backward,
// one call at a time. Failure: what `ready` throws comes out of backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace weft::engine {

class GradientHooks {
 public:
  struct Watched {
    int parameter;
    at::Tensor tensor;
  };

  GradientHooks(std::vector<Watched> watched, const std::function<void(int parameter)>& ready);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  const std::vector<Watched> watched_;
};

}  // namespace weft::engine
