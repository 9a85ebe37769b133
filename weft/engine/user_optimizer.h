// An optimizer of the user's own, behind the engine: what it gets to see, and what it must do.
//
//   auto engine = weft::initialize(model, config, world, {.optimizer = make});
//
// `make` is called on every rank with what that rank updates, by parameter group: in stage 0 whole parameters in their shapes, in
// the others flat slices that end anywhere. So there an update must be made element by element; the config says that it is with
// "zero_allow_untested_optimizer": true. Tensors are fp32, also where the model is not, and keep their memory. It is called again
// while nothing has been updated yet: the first backward teaches where slices lie.
//
// For torch::optim::Optimizer there is weft/engine/torch_optimizer.h.
//
// Ownership: the engine owns what make() gives; that shares the tensors. Threads: the engine's. Failure: what step() throws ends the
// engine.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/engine/param_groups.h"

namespace weft {

struct UserGroup {
  std::vector<at::Tensor> tensors;  // may be none: this rank owns nothing of the group
  GroupNumbers numbers = {};        // that were asked for
};

class UserOptimizer {
 public:
  virtual ~UserOptimizer() = default;

  // Updates every tensor in place from its grad(): fp32, in its shape, with clipping and the loss scale done. All have one.
  virtual void step() = 0;

  // By group, in the order given. A schedule of the config sets it before each step.
  virtual double lr(size_t group) const = 0;
  virtual void set_lr(size_t group, double lr) = 0;

  // Its whole state, to be load()ed over tensors of the same sizes; none: it cannot be saved, and whoever asks for it is told.
  virtual std::optional<std::string> save() const { return std::nullopt; }
  virtual void load(const std::string& /*saved*/) {}
};

// The groups of EngineOptions in their order, then all other parameters.
using OptimizerFactory = std::function<std::unique_ptr<UserOptimizer>(const std::vector<UserGroup>& groups)>;

}  // namespace weft
