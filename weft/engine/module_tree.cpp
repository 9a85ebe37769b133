#include "weft/engine/module_tree.h"

#include <set>

namespace weft::engine {

ModuleTree::ModuleTree(const ModelTensors& model) : is_told_(!model.modules.empty()), modules_(1), by_name_{{"", 0}} {
  for (const auto& [name, type] : model.modules) modules_[static_cast<size_t>(find_or_add(name))].type = type;
  std::set<const void*> counted;
  for (const auto& [name, tensor] : model.parameters) {
    auto& module = modules_[static_cast<size_t>(find_or_add(module_name(name)))];
    if (counted.insert(tensor.unsafeGetTensorImpl()).second) module.num_parameters += tensor.numel();
  }
  for (const auto& buffer : model.buffers) find_or_add(module_name(buffer.first));
}

std::string ModuleTree::module_name(const std::string& tensor_name) const {
  const size_t dot = tensor_name.rfind('.');
  if (dot != std::string::npos) return tensor_name.substr(0, dot);
  return is_told_ ? "" : tensor_name;
}

int ModuleTree::find_or_add(const std::string& name) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) return found->second;
  const size_t dot = name.rfind('.');
  const int parent = find_or_add(dot == std::string::npos ? "" : name.substr(0, dot));
  const int number = static_cast<int>(modules_.size());
  modules_.push_back({.name = name, .parent = parent, .depth = modules_[static_cast<size_t>(parent)].depth + 1});
  by_name_.emplace(name, number);
  return number;
}

int ModuleTree::owner_of(const std::string& tensor_name) const { return by_name_.at(module_name(tensor_name)); }

int ModuleTree::common(int a, int b) const {
  const auto at = [&](int number) -> const ModuleInTree& { return modules_[static_cast<size_t>(number)]; };
  while (at(a).depth > at(b).depth) a = at(a).parent;
  while (at(b).depth > at(a).depth) b = at(b).parent;
  while (a != b) a = at(a).parent, b = at(b).parent;
  return a;
}

std::vector<int> ModuleTree::in_order() const {
  std::vector<std::vector<int>> inside(modules_.size());
  for (size_t i = 1; i < modules_.size(); ++i)
    inside[static_cast<size_t>(modules_[i].parent)].push_back(static_cast<int>(i));
  std::vector<int> out, next = {kModel};
  while (!next.empty()) {
    out.push_back(next.back());
    next.pop_back();
    const auto& children = inside[static_cast<size_t>(out.back())];
    next.insert(next.end(), children.rbegin(), children.rend());
  }
  return out;
}

}  // namespace weft::engine
