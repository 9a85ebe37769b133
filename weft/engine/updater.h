// What reduced gradients do to the weights: norm, clipping, the loss scale, the schedule, the optimizer on this rank's part.
//
// An update whose gradient is not finite is left out, on all ranks alike, and the schedule does not move. In fp16 that is how the loss
// scale finds its size; elsewhere ten in a row are too many.
//
// Ownership: owns the optimizer and its state; shares the tensors it is given. Threads: one at a time. Failure: Error(kInput) for a
// config that names what is not there, GradientsLost, as Group.
#pragma once

#include <optional>
#include <vector>

#include "weft/comm/group.h"
#include "weft/config/resolved.h"
#include "weft/engine/gradient_norm.h"
#include "weft/engine/optimizer_state.h"
#include "weft/engine/param_groups.h"
#include "weft/engine/reducer.h"
#include "weft/engine/user_update.h"
#include "weft/optim/core/loss_scaler.h"
#include "weft/optim/optimizer.h"

namespace weft::engine {

// What this rank updates, by bucket.
struct UpdateTargets {
  std::vector<at::Tensor> params = {};  // fp32, or bf16 where masters are
  std::vector<at::Tensor> grads = {};
  std::vector<at::Tensor> copies = {};        // of params in the model's type; undefined: params are the model's
  std::vector<std::vector<Part>> parts = {};  // which of its elements belong to which parameter
  const plan::ParameterTable* table = nullptr;
  comm::Group* shared_with = nullptr;  // whose ranks update the rest; nobody: null
};

class Updater {
 public:
  // `make`: an optimizer of the user's own; none: that of the config.
  explicit Updater(const config::Resolved& config, OptimizerFactory make = {});

  // Throws where state could not follow the parameters to another layout.
  void check_can_move() const;

  // State that was there is gone: take it out before, and put it in again.
  void use(UpdateTargets targets, ParameterGroups groups);
  // Those that have no state yet: where they are trained from now on, their first update is the next one.
  void let_join(const std::vector<int>& parameters);

  // Waits for the gradients. Whether the weights changed, as far as is known here: a device may leave it out later.
  bool update(Reducer& reducer, int64_t step);
  // Throws GradientsLost where the update before this was the last hope. Apart, so that whoever calls can tidy up first.
  void check_hope() const;

  double loss_scale() const { return scaler_.scale(); }
  // Of the config's own group, and of all.
  double lr() const;
  std::vector<double> lrs() const;
  void set_lr(double lr);
  void set_lrs(const std::vector<double>& lrs);
  double grad_norm() const { return norm_.value() / norm_scale_; }
  int64_t num_skipped() { return num_skipped_ + (optimizer_ ? optimizer_->num_left_out() : 0); }
  void set_num_skipped(int64_t count) { num_skipped_ += count - num_skipped(); }

  bool has_state() const { return user_ ? user_->has_state() : optimizer_.has_value(); }
  // By kind and bucket; makes it where there is none.
  FlatState state();
  // What is not by parameter: "step", live; of the optimizer's own "joined", the update each parameter joined after, in the order
  // of their names; where losses are scaled "loss_scale".
  NamedTensors counters();
  // Of what counters() gave; without "joined" all began together. State that is there stays, in other tensors perhaps.
  void set_counters(const NamedTensors& state);
  // That of an optimizer of the user's own, of all ranks of the group, which all call it; else nothing.
  NamedTensors user_state(comm::Group& group);
  // This rank's alone. Requires: there is one.
  at::Tensor user_bytes() const;
  void set_user_bytes(const at::Tensor& bytes);
  void set_user_state(comm::Group& group, const NamedTensors& state);
  // What an element of state of this kind begins with.
  double initial_state(std::string_view kind) const { return optim::initial_state(groups_.settings.back(), kind); }
  int64_t state_bytes() const { return optimizer_ ? optimizer_->state_bytes() : 0; }

 private:
  void make_optimizer();
  void add_slices(size_t bucket, std::vector<optim::ParamGroup>& groups);
  std::vector<std::vector<UserTarget>> user_targets() const;
  void apply(double grad_scale);
  void follow_schedule();
  bool update_whole(Reducer& reducer, int64_t step);
  bool update_as_they_come(Reducer& reducer);
  bool skip(int64_t step);
  bool needs_norm() const;
  at::Tensor joined_by_name() const;
  void set_joined(const at::Tensor& by_name);

  const config::Resolved& config_;
  const optim::Schedule schedule_;
  UpdateTargets targets_;
  ParameterGroups groups_;
  std::vector<int64_t> joined_;  // by parameter: the update it joined after; of frozen ones 0
  std::vector<std::vector<std::pair<size_t, size_t>>> slices_;  // by bucket: group and place in it, one after the other
  std::optional<optim::Optimizer> optimizer_;
  std::optional<UserUpdate> user_;  // in its place
  const bool scales_losses_;
  optim::LossScaler scaler_;
  GradientNorm norm_;
  double norm_scale_ = 1;  // that of the loss when it was taken
  int64_t num_skipped_ = 0;
  int num_in_a_row_ = 0;
  std::optional<ErrorText> lost_;  // after an update that was left out: why no other will come
};

}  // namespace weft::engine
