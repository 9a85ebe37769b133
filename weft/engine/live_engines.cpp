#include "weft/engine/live_engines.h"

#include <mutex>
#include <unordered_map>

#include "weft/engine/checks.h"

namespace weft::engine {
namespace {

// By the address of the tensor, not of its memory: new layouts move that. Whoever is listed keeps its tensors, so no address
// comes twice.
struct Register {
  std::mutex mutex;
  std::unordered_map<const at::TensorImpl*, std::vector<Training*>> trainers;  // the youngest last
};

Register& the_register() {
  static Register one;
  return one;
}

}  // namespace

Listed::Listed(Training& training, const ModelTensors& model) : training_(training), model_(model) {
  Register& all = the_register();
  const std::scoped_lock lock(all.mutex);
  for (const auto& [name, tensor] : model_.parameters) {
    auto& trainers = all.trainers[tensor.unsafeGetTensorImpl()];
    // Tied weights are one tensor under two names.
    if (trainers.empty() || trainers.back() != &training_) trainers.push_back(&training_);
  }
}

Listed::~Listed() {
  Register& all = the_register();
  const std::scoped_lock lock(all.mutex);
  for (const auto& [name, tensor] : model_.parameters) {
    const auto found = all.trainers.find(tensor.unsafeGetTensorImpl());
    if (found == all.trainers.end()) continue;
    std::erase(found->second, &training_);
    if (found->second.empty()) all.trainers.erase(found);
  }
}

Training* find_trainer(const at::Tensor& parameter) {
  Register& all = the_register();
  const std::scoped_lock lock(all.mutex);
  const auto found = parameter.defined() ? all.trainers.find(parameter.unsafeGetTensorImpl()) : all.trainers.end();
  return found == all.trainers.end() ? nullptr : found->second.back();
}

Training& trainer_of(const at::Tensor& parameter) {
  if (Training* const found = find_trainer(parameter)) return *found;
  misuse("no engine trains this tensor",
         "give a tensor of named_parameters() itself, not a view or a copy, while the engine of its model lives");
}

}  // namespace weft::engine
