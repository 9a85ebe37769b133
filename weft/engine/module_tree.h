// The modules of a model as a tree, from their dotted names: "block0.qkv" is in "block0", which is in the model itself, "". Those that
// the model does not tell of (ModelTensors::modules) follow from the names of its parameters; where it tells of none, a parameter
// at the top counts as a module of its own, so that functions over named tensors have rows too.
//
// A value. Any thread once it is made. Failure: none.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "weft/engine/model_tensors.h"

namespace weft::engine {

struct ModuleInTree {
  std::string name = {}, type = {};  // type "": not known
  int parent = -1;                   // of the model itself none
  int depth = 0;
  int64_t num_parameters = 0;  // elements, tied ones once; those of the modules in it left out
};

class ModuleTree {
 public:
  explicit ModuleTree(const ModelTensors& model);

  static constexpr int kModel = 0;
  const std::vector<ModuleInTree>& modules() const { return modules_; }
  // Whose parameter or buffer it is, by its name. Requires: a name of the model.
  int owner_of(const std::string& tensor_name) const;
  // The smallest module that has both in it.
  int common(int a, int b) const;
  // All of them, each before those in it, in the order in which they were registered.
  std::vector<int> in_order() const;

 private:
  int find_or_add(const std::string& name);
  std::string module_name(const std::string& tensor_name) const;

  const bool is_told_;  // modules, by the model
  std::vector<ModuleInTree> modules_;
  std::unordered_map<std::string, int> by_name_;
};

}  // namespace weft::engine
