// One parameter, its gradient or a part of its optimizer's state, whole, for code that has the model but not the engine: metrics,
// weight surgery, a callback deep in the model.
//
//   auto grad = weft::full_grad(model->head->weight);     // all ranks call it, with the same parameter
//   weft::set_full_param(model->head->weight, value);
//
// They find the live engine that trains the parameter, the youngest where several were made of one model, and mean what Engine's
// functions of the same names mean. Threads: the search is safe on any; the engine that was found is used as any other call of it,
// one at a time. Failure: Error(kBug) where no engine trains the parameter, and as Engine.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace weft {

at::Tensor full_param(const at::Tensor& parameter);
at::Tensor full_grad(const at::Tensor& parameter);
at::Tensor full_state(const at::Tensor& parameter, const std::string& kind);
void set_full_param(const at::Tensor& parameter, const at::Tensor& value);
void set_full_grad(const at::Tensor& parameter, const at::Tensor& value);
void set_full_state(const at::Tensor& parameter, const std::string& kind, const at::Tensor& value);

}  // namespace weft
