// Tells when autograd has added a gradient to a parameter, and how often it will. The only place that touches autograd's own classes.
//
// Ownership: the hooks end with this object, or with the next one that watches the same parameters; those are shared. Threads: `ready` runs on the thread that runs backward,
// one call at a time. Failure: what `ready` throws comes out of backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace weft::engine {

// Whether backward from here brings each parameter's gradient once. A function of the user's own may run a backward inside its own, as
// recomputation does, which brings those of what it uses by itself: then, false, nobody knows.
bool each_comes_once(const at::Tensor& loss);

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
  std::vector<const void*> hooks_;  // ours, in that order; the tensors own them
};

}  // namespace weft::engine
