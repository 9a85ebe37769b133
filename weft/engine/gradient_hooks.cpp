#include "weft/engine/gradient_hooks.h"

#include <c10/util/Type.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <string>
#include <typeindex>
#include <unordered_map>
#include <unordered_set>

namespace weft::engine {
namespace {

class Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(int parameter, std::function<void(int)> ready) : parameter_(parameter), ready_(std::move(ready)) {}
  void operator()(const at::Tensor& /*parameter*/) override { ready_(parameter_); }

 private:
  const int parameter_;
  const std::function<void(int)> ready_;
};

// What torch itself differentiates runs no other backward. Functions of C++ and of Python programs are CppNode and PyNode. A graph has
// thousands of nodes and a few types, whose names are long: each is read once.
bool is_of_torch(const torch::autograd::Node& node) {
  thread_local std::unordered_map<std::type_index, bool> known;
  const auto [found, is_new] = known.try_emplace(typeid(node), false);
  if (!is_new) return found->second;
  const std::string type = c10::demangle(typeid(node).name());
  found->second = type.starts_with("torch::autograd::") && !type.starts_with("torch::autograd::CppNode<") &&
                  !type.starts_with("torch::autograd::PyNode");
  return found->second;
}

}  // namespace

bool each_comes_once(const at::Tensor& loss) {
  std::vector<torch::autograd::Node*> to_visit = {loss.grad_fn().get()};
  std::unordered_set<const torch::autograd::Node*> seen;
  while (!to_visit.empty()) {
    torch::autograd::Node* const node = to_visit.back();
    to_visit.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    if (!is_of_torch(*node)) return false;
    for (const torch::autograd::Edge& edge : node->next_edges()) to_visit.push_back(edge.function.get());
  }
  return true;
}

GradientHooks::GradientHooks(std::vector<Watched> watched, const std::function<void(int parameter)>& ready)
    : watched_(std::move(watched)) {
  for (const auto& one : watched_) {
    auto hook = std::make_unique<Hook>(one.parameter, ready);
    hooks_.push_back(hook.get());
    torch::autograd::impl::set_post_acc_grad_hooks(one.tensor, std::move(hook));
  }
}

// A tensor has one hook. Where somebody watches it since, it is theirs, and ours is gone already.
GradientHooks::~GradientHooks() {
  for (size_t i = 0; i < watched_.size(); ++i) {
    const at::Tensor& tensor = watched_[i].tensor;
    if (torch::autograd::impl::post_acc_grad_hooks(tensor).get() != hooks_[i]) continue;
    torch::autograd::impl::set_post_acc_grad_hooks(tensor, nullptr);
  }
}

}  // namespace weft::engine
