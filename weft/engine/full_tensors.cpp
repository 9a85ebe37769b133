#include "weft/engine/full_tensors.h"

#include "weft/engine/live_engines.h"
#include "weft/engine/training.h"

namespace weft {

using engine::trainer_of;

at::Tensor full_param(const at::Tensor& parameter) { return trainer_of(parameter).full_param(parameter); }
at::Tensor full_grad(const at::Tensor& parameter) { return trainer_of(parameter).full_grad(parameter); }
at::Tensor full_state(const at::Tensor& parameter, const std::string& kind) {
  return trainer_of(parameter).full_state(parameter, kind);
}

void set_full_param(const at::Tensor& parameter, const at::Tensor& value) {
  trainer_of(parameter).set_full_param(parameter, value);
}
void set_full_grad(const at::Tensor& parameter, const at::Tensor& value) {
  trainer_of(parameter).set_full_grad(parameter, value);
}
void set_full_state(const at::Tensor& parameter, const std::string& kind, const at::Tensor& value) {
  trainer_of(parameter).set_full_state(parameter, kind, value);
}

}  // namespace weft
