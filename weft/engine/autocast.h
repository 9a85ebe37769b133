// torch.autocast for C++, where libtorch has only its parts: while one lives, operators that gain by it compute in a
// narrower type (matrix products, convolutions), those that lose by it in fp32. Parameters stay as they are.
//
//   at::Tensor loss;
//   {
//     const weft::Autocast narrow(at::kCPU, at::kBFloat16);      // or engine.autocast(), as the config says
//     loss = model->forward(batch);
//   }
//   engine.backward(loss);                                       // outside: its operators know their types already
//
// Parameters are cast once for a region and kept: the casts are dropped where the outermost region ends, by an
// exception too. So do not step() inside of one: what follows would compute with the old weights.
//
// Ownership: none. Threads: of the thread that makes it, and that thread ends it; nested ones end in the opposite
// order. Failure: Error(kInput) for a type that is neither fp16 nor bf16.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace weft {

class Autocast {
 public:
  // Without effect.
  Autocast() = default;
  // enabled: false switches a region around this one off.
  Autocast(c10::DeviceType device, c10::ScalarType dtype, bool enabled = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool active_ = false;
  c10::DeviceType device_ = c10::DeviceType::CPU;
  bool was_enabled_ = false;
  c10::ScalarType old_dtype_ = c10::ScalarType::Float;
};

}  // namespace weft
