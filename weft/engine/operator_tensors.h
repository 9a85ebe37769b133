// The tensors among an operator's inputs and outputs: plain, optional, in lists and in lists of optional ones.
#pragma once

#include <ATen/core/ivalue.h>

namespace weft::engine {

template <typename Look>
void for_each_tensor(const c10::IValue& value, Look look) {
  if (value.isTensor()) {
    look(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& one : value.toTensorVector()) look(one);
  } else if (value.isOptionalTensorList()) {
    for (const auto& one : value.toOptionalTensorVector()) {
      if (one) look(*one);
    }
  }
}

}  // namespace weft::engine
