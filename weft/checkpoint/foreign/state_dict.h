// The weights in a file of torch.save: a dict of tensors by name, as model.state_dict() gives it; or such a dict one level down, under
// one of the names that training scripts use (state_dict, model, ...).
//
// Pure functions. Failure: Error(kInput) naming the file for one without weights, for a name twice or one that is no text, and for
// types of elements that nobody here can hold.
#pragma once

#include <string>
#include <vector>

#include "weft/checkpoint/foreign/torch_file.h"

namespace weft::checkpoint::foreign {

struct NamedTensor {
  std::string name = {};
  TorchTensor tensor = {};
};

struct StateDict {
  std::vector<NamedTensor> tensors;  // in the file's order
  std::vector<std::string> others;   // "epoch, an integer": what lies beside them and is no tensor
};

StateDict state_dict_in(const TorchFile& file);
// The tensors of one dict; there may be none.
StateDict tensors_in(const TorchFile& file, const Value& dict);

}  // namespace weft::checkpoint::foreign
