#include "weft/engine/user_update.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "weft/base/check.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/engine/checks.h"
#include "weft/engine/refuse_impl.h"
#include "weft/engine/settings.h"

namespace weft::engine {
config::Resolved for_user_optimizer(config::Resolved config) {
  const auto stage = config.zero_optimization.stage;
  if (config.optimizer.type) {
    refuse("there are two optimizers", cat("\"", *config.optimizer.type, "\" of the config, and one of your own"),
           "leave \"optimizer\" out of the config, or .optimizer out of EngineOptions");
  }
  if (stage > 0 && !config.zero_allow_untested_optimizer) {
    refuse(cat("an optimizer of your own sees parts of parameters in stage ", stage),
           "\"zero_allow_untested_optimizer\": false",
           "set \"zero_allow_untested_optimizer\": true if it updates element by element, or \"stage\": 0");
  }
  if (config.weft.bucket == config::BucketSizes::kAuto) {
    refuse("tuned buckets cannot be had with an optimizer of your own",
           "\"bucket\": \"auto\" moves the state of the first steps", "leave \"bucket\" out");
  }
  if (has_bf16_masters(config)) {
    refuse("an optimizer of your own updates fp32", "\"bf16_master_weights_and_grads\": true",
           "leave \"bf16_master_weights_and_grads\" out");
  }
  // In stage 0 it has whole parameters, whatever it does with them.
  if (stage == 0) config.weft.shard_update = false;
  return config;
}

void UserUpdate::check_can_move() const {
  if (!has_stepped_) return;
  misuse("the state of an optimizer of your own cannot move to another layout",
         "freeze and unfreeze parameters before the first step only");
}

void UserUpdate::use(std::vector<std::vector<UserTarget>> targets, std::vector<GroupNumbers> numbers) {
  WEFT_CHECK(!has_stepped_);
  if (!step_.defined()) step_ = at::zeros({}, at::kLong);
  targets_ = std::move(targets);
  std::vector<UserGroup> groups;
  for (size_t group = 0; group < targets_.size(); ++group) {
    groups.push_back({.numbers = numbers[group]});
    for (const UserTarget& target : targets_[group]) groups.back().tensors.push_back(target.param);
  }
  const std::vector<double> before = lrs();
  optimizer_ = make_(groups);
  if (!optimizer_) misuse("the factory of the optimizer gave none", "return one from EngineOptions::optimizer");
  if (before.empty()) {
    base_lrs_ = lrs();
  } else {
    set_lrs(before);
  }
}

namespace {

// An optimizer may look at all gradients at a time, so all are there in fp32; in the same memory in every step.
at::Tensor in_fp32(UserTarget& target) {
  if (target.grad.scalar_type() == at::kFloat) return target.grad;
  if (!target.wide.defined()) target.wide = at::empty_like(target.grad, at::kFloat);
  return target.wide.copy_(target.grad);
}

}  // namespace

void UserUpdate::step(double grad_scale) {
  const at::NoGradGuard no_grad;
  if (!saved_.empty()) load_now();
  for (auto& group : targets_) {
    for (UserTarget& target : group) {
      at::Tensor grad = in_fp32(target);
      if (grad_scale != 1) grad.mul_(grad_scale);
      target.param.mutable_grad() = grad;
    }
  }
  optimizer_->step();
  for (auto& group : targets_) {
    for (UserTarget& target : group) {
      target.param.mutable_grad().reset();
      if (target.copy.defined()) target.copy.copy_(target.param);
    }
  }
  step_.add_(1);
  has_stepped_ = true;
}

void UserUpdate::follow(const optim::Schedule& schedule) {
  for (size_t group = 0; group < base_lrs_.size(); ++group) {
    optimizer_->set_lr(group, lr_at(schedule, num_steps(), base_lrs_[group], group));
    if (num_steps() == 0 && betas_at(schedule, 0, group)) {
      log_warn("cycle_momentum has no effect: the optimizer is not weft's");
    }
  }
}

std::vector<double> UserUpdate::lrs() const {
  std::vector<double> out;
  for (size_t group = 0; optimizer_ && group < targets_.size(); ++group) out.push_back(optimizer_->lr(group));
  return out;
}

void UserUpdate::set_lrs(const std::vector<double>& lrs) {
  for (size_t group = 0; group < lrs.size(); ++group) optimizer_->set_lr(group, lrs[group]);
}

int64_t UserUpdate::num_steps() const { return *step_.const_data_ptr<int64_t>(); }

// --- State -----------------------------------------------------------------------------------------------------------

// In front of the bytes: what they are the state of.
std::string UserUpdate::sizes() const {
  std::vector<std::string> sizes;
  for (const auto& group : targets_) {
    sizes.emplace_back("|");
    for (const UserTarget& target : group) sizes.push_back(cat(target.param.numel()));
  }
  return join(sizes, " ");
}

std::string UserUpdate::save() const {
  if (!saved_.empty()) return saved_;
  const auto bytes = optimizer_->save();
  if (bytes) return cat(sizes(), "\n", *bytes);
  misuse("this optimizer cannot be saved", "give your UserOptimizer a save() and a load()");
}

void UserUpdate::load_now() {
  const size_t end = saved_.find('\n');
  const std::string theirs = saved_.substr(0, end);
  if (end == std::string::npos || theirs != sizes()) {
    refuse("the optimizer's state is that of other slices",
           cat("elements by group:", theirs, " saved,", sizes(), " here"),
           "resume with the model, the number of ranks, the stage and the bucket size it was saved with");
  }
  const std::vector<double> now = lrs();
  optimizer_->load(saved_.substr(end + 1));
  set_lrs(now);
  saved_.clear();
}

}  // namespace weft::engine
