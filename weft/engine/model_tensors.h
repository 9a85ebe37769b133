// What the engine knows of a model: its named parameters and buffers, in the order they were registered. Any module gives
// them; nothing is wrapped.
//
// Ownership: the tensors are the model's own, shared. Threads: values. Failure: Error(kInput), naming the parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/plan/parameter_table.h"

namespace weft::engine {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct ModelTensors {
  NamedTensors parameters, buffers;
  // Names and types of its modules, its own first with the name ""; empty where there are none to ask: names tell then.
  std::vector<std::pair<std::string, std::string>> modules = {};
};

// "Linear" for "torch::nn::LinearImpl".
std::string short_type(std::string_view type);

// From anything with torch::nn::Module's named_parameters() and named_buffers(): so this header needs none of torch::nn.
template <typename Module>
ModelTensors tensors_of(const Module& model) {
  ModelTensors out;
  for (const auto& entry : model.named_parameters()) out.parameters.emplace_back(entry.key(), entry.value());
  for (const auto& entry : model.named_buffers()) out.buffers.emplace_back(entry.key(), entry.value());
  if constexpr (requires { model.named_modules(std::string(), false); }) {
    // Without the model itself, which would have to be in a shared_ptr.
    out.modules.emplace_back("", short_type(model.name()));
    for (const auto& entry : model.named_modules(std::string(), false))
      out.modules.emplace_back(entry.key(), short_type(entry.value()->name()));
  }
  return out;
}

// Every parameter in their order, without names: what named_parameters() costs is mostly names.
template <typename Module, typename Visit>
void each_parameter(const Module& model, const Visit& visit) {
  if constexpr (requires { model.named_parameters(false), model.children(); }) {
    for (const auto& entry : model.named_parameters(false)) visit(entry.value());
    for (const auto& child : model.children()) each_parameter(*child, visit);
  } else {
    for (const auto& entry : model.named_parameters()) visit(entry.value());
  }
}

// Whether they are the given ones, tensor for tensor. For every backward: 0.2 ms for 3,000 parameters, where forward and backward of the
// smallest layers take 40.
template <typename Module>
bool has_parameters(const Module& model, const ModelTensors& given) {
  size_t count = 0;
  bool same = true;
  each_parameter(model, [&](const at::Tensor& one) {
    same = same && count < given.parameters.size() && given.parameters[count].second.is_same(one);
    ++count;
  });
  return same && count == given.parameters.size();
}

// The first parameter that was added, is gone or is another tensor, in words; "": none.
std::string change_of(const ModelTensors& now, const ModelTensors& given);

// Without buffers that are undefined, as batch norms without statistics register them: there is nothing of them to keep.
ModelTensors with_defined_buffers(ModelTensors model);

// Refuses a model that cannot be trained: nothing to train, several devices, types without gradients, views of each other.
plan::ParameterTable table_of(const ModelTensors& model);

at::Device device_of(const ModelTensors& model);

// Groups of the model's parameters by their numbers in the table; tied ones by their owners', each once.
std::vector<std::vector<int>> numbers_of(const std::vector<std::vector<at::Tensor>>& groups, const ModelTensors& model,
                                         const plan::ParameterTable& table);

}  // namespace weft::engine
