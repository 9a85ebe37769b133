// Updates by an optimizer of the user's own: what Updater does by its own otherwise, over the same targets.
//
// State is the optimizer's. It is saved as bytes for each rank, and goes back only to slices of the same sizes; a layout that changes
// after the first update is refused.
//
// Ownership: owns the optimizer; shares the targets' tensors. Threads: one at a time. Failure: Error(kInput), Error(kBug), and whatever
// the optimizer throws.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/config/resolved.h"
#include "weft/engine/param_groups.h"
#include "weft/engine/user_optimizer.h"
#include "weft/optim/core/schedule.h"

namespace weft::engine {

// What an update reads and writes.
struct UserTarget {
  at::Tensor param, grad;
  at::Tensor copy;       // of the new parameters in the model's type; undefined: none
  at::Tensor wide = {};  // the gradient in fp32, where it is kept in another type; made with the first update
};

// The config as the engine goes by it then. Refuses what cannot be had together.
config::Resolved for_user_optimizer(config::Resolved config);

class UserUpdate {
 public:
  explicit UserUpdate(OptimizerFactory make) : make_(std::move(make)) {}

  // By group. Requires: no update was made, see check_can_move().
  void use(std::vector<std::vector<UserTarget>> targets, std::vector<GroupNumbers> numbers);
  void check_can_move() const;

  // Gradients are multiplied by the factor first, in place where they are fp32.
  void step(double grad_scale);
  void follow(const optim::Schedule& schedule);
  std::vector<double> lrs() const;
  void set_lrs(const std::vector<double>& lrs);

  bool has_state() const { return has_stepped_; }
  // Updates made, those before a resume included; live.
  const at::Tensor& counter() const { return step_; }
  int64_t num_steps() const;
  // This rank's, as load() takes it. What is loaded counts from the next step on, when slices lie where they will stay.
  std::string save() const;
  void load(std::string saved) { saved_ = std::move(saved); }

 private:
  std::string sizes() const;
  void load_now();

  const OptimizerFactory make_;
  std::vector<std::vector<UserTarget>> targets_;
  std::unique_ptr<UserOptimizer> optimizer_;
  std::vector<double> base_lrs_;
  at::Tensor step_;
  bool has_stepped_ = false;
  std::string saved_;  // not loaded yet; "": nothing
};

}  // namespace weft::engine
