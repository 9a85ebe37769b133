#include "weft/engine/updater.h"

#include <ATen/ops/tensor.h>

#include <cmath>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/monitor/span.h"
#include "weft/optim/core/schedule_settings.h"

namespace weft::engine {
namespace {

// One bad batch is passed over; weights that give nothing but infinities will not recover by themselves.
constexpr int kMaxSkippedInARow = 10;
constexpr std::string_view kStep = "step", kLossScale = "loss_scale";

std::string slice_name(size_t bucket) { return cat("bucket_", bucket); }

[[noreturn]] void refuse_lost(std::string what, int64_t step, std::string fix) {
  throw Error(ErrorKind::kEnvironment, {.title = "the gradient is no longer a number",
                                        .what = std::move(what),
                                        .where = cat("step ", step),
                                        .fix = std::move(fix)});
}

}  // namespace

Updater::Updater(const config::Resolved& config)
    : config_(config),
      schedule_(optim::read_schedule(config.scheduler)),
      scaler_(optim::read_loss_scaler(config.fp16)) {}

void Updater::use(UpdateTargets targets) {
  optimizer_.reset();
  targets_ = std::move(targets);
}

void Updater::make_optimizer() {
  optim::ParamGroup group{.settings = optim::read_optimizer(config_.optimizer), .slices = {}};
  for (size_t bucket = 0; bucket < targets_.params.size(); ++bucket) {
    group.slices.push_back({.name = slice_name(bucket),
                            .param = targets_.params[bucket],
                            .grad = targets_.grads[bucket],
                            .copy = targets_.copies[bucket],
                            .pieces = targets_.pieces[bucket]});
  }
  group.num_parameters = targets_.num_parameters;
  optim::AddOverRanks add;
  if (targets_.shared_with != nullptr) {
    add = [ranks = targets_.shared_with](const at::Tensor& sums) { ranks->all_reduce(sums); };
  }
  optimizer_.emplace(std::vector<optim::ParamGroup>{std::move(group)}, std::move(add));
}

// A pass over all gradients, which only clipping needs, and whoever must know whether they are finite.
bool Updater::needs_norm() const {
  return config_.gradient_clipping > 0 || config_.fp16.enabled || !optimizer_->by_slices() ||
         (config_.bf16.enabled && config_.bf16.check_grad_overflow);
}

bool Updater::update(Reducer& reducer, int64_t step) {
  if (!optimizer_) make_optimizer();
  return needs_norm() ? update_whole(reducer, step) : update_as_they_come(reducer);
}

bool Updater::update_whole(Reducer& reducer, int64_t step) {
  reducer.wait();
  const Span span({.name = "optimizer", .category = SpanCategory::kOptimizer});
  norm_ = global_norm(targets_.grads, targets_.shared_with);
  norm_scale_ = scaler_.scale();
  const bool known = config_.fp16.enabled || !norm_.on_device().defined();
  if (known && !std::isfinite(norm_.value())) return skip(step);
  num_in_a_row_ = 0;
  follow_schedule();
  if (known) {
    optimizer_->step(clip_factor(grad_norm(), config_.gradient_clipping) / norm_scale_);
    scaler_.update(false);
  } else {
    optimizer_->step(clip_factor(norm_.on_device(), config_.gradient_clipping));
  }
  return true;
}

// Nobody has to know all gradients first: a bucket is updated while later ones are on their way.
bool Updater::update_as_they_come(Reducer& reducer) {
  follow_schedule();
  optimizer_->begin_step();
  reducer.wait([&](int bucket) {
    const Span span({.name = "optimizer", .category = SpanCategory::kOptimizer, .bucket = bucket});
    optimizer_->step_slice(0, static_cast<size_t>(bucket));
  });
  return true;
}

// Without a schedule the rate is whatever was set last.
void Updater::follow_schedule() {
  if (!std::holds_alternative<optim::FixedLr>(schedule_)) optimizer_->follow(schedule_);
}

bool Updater::skip(int64_t step) {
  ++num_skipped_;
  const auto outcome = config_.fp16.enabled ? scaler_.update(true) : optim::LossScaler::Outcome::kSkipped;
  log_warn("step ", step, " skipped: the gradient is not finite (", num_skipped_, " so far)",
           config_.fp16.enabled ? cat("; loss scale ", norm_scale_, " -> ", scaler_.scale()) : "");
  if (outcome == optim::LossScaler::Outcome::kSkippedAtMinimum) {
    refuse_lost(cat("at the smallest loss scale, ", norm_scale_), step,
                "a smaller learning rate or a longer warm-up; or bf16, which needs no loss scale");
  }
  if (config_.fp16.enabled && scaler_.is_dynamic()) return false;
  if (++num_in_a_row_ >= kMaxSkippedInARow) {
    refuse_lost(cat(num_in_a_row_, " steps in a row, at learning rate ", lr()), step,
                "a smaller learning rate, a longer warm-up, or gradient_clipping");
  }
  return false;
}

double Updater::lr() const {
  if (optimizer_) return optimizer_->lr(0);
  return optim::lr_at(schedule_, 0, optim::lr_of(optim::read_optimizer(config_.optimizer)));
}

void Updater::set_lr(double lr) {
  if (!optimizer_) make_optimizer();
  optimizer_->set_lr(0, lr);
}

FlatState Updater::state() {
  if (!optimizer_) make_optimizer();
  FlatState out;
  for (const auto& [name, tensor] : optimizer_->state()) {
    const size_t dot = name.find('.');
    if (dot != std::string::npos) out[name.substr(dot + 1)].push_back(tensor);
  }
  for (const auto& [kind, flats] : out) WEFT_CHECK_EQ(flats.size(), targets_.params.size());
  return out;
}

NamedTensors Updater::counters() {
  if (!optimizer_) make_optimizer();
  NamedTensors out;
  for (const auto& [name, tensor] : optimizer_->state()) {
    if (name == kStep) out.emplace_back(name, tensor);
  }
  if (!config_.fp16.enabled) return out;
  const optim::LossScaler::State s = scaler_.state();
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  out.emplace_back(
      kLossScale,
      at::tensor({s.scale, number(s.num_updates), number(s.last_overflow), number(s.hysteresis_left)}, at::kDouble));
  return out;
}

void Updater::set_counters(const NamedTensors& state) {
  counters().front().second.copy_(find_state(state, std::string(kStep), 1));
  if (!config_.fp16.enabled) return;
  const at::Tensor saved = find_state(state, std::string(kLossScale), 4).to(at::kDouble).contiguous();
  const auto* const numbers = saved.const_data_ptr<double>();
  scaler_.restore({.scale = numbers[0],
                   .num_updates = static_cast<int64_t>(numbers[1]),
                   .last_overflow = static_cast<int64_t>(numbers[2]),
                   .hysteresis_left = static_cast<int64_t>(numbers[3])});
}

}  // namespace weft::engine
