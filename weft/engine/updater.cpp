#include "weft/engine/updater.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/checkpoint/state_names.h"
#include "weft/engine/agree.h"
#include "weft/engine/gradients_lost.h"
#include "weft/engine/settings.h"
#include "weft/monitor/span.h"
#include "weft/optim/core/schedule_settings.h"

namespace weft::engine {
namespace {

// One bad batch is passed over; weights that give nothing but infinities will not recover by themselves.
constexpr int kMaxSkippedInARow = 10;
constexpr std::string_view kStep = "step", kJoined = "joined", kLossScale = "loss_scale";

at::Tensor tensor_of(const std::string& bytes) {
  const at::Tensor tensor = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::ranges::copy(bytes, static_cast<char*>(tensor.mutable_data_ptr()));
  return tensor;
}

std::string slice_name(size_t bucket, size_t run) { return cat("bucket_", bucket, "_", run); }

optim::FlatSlice nothing_of(const UpdateTargets& targets, size_t group) {
  return {.name = cat("nothing_", group),
          .param = targets.params.front().narrow(0, 0, 0),
          .grad = targets.grads.front().narrow(0, 0, 0)};
}

// Whoever loads may have registered them in another order.
std::vector<int> by_name(const plan::ParameterTable& table) {
  std::vector<int> out;
  for (int parameter = 0; parameter < table.size(); ++parameter) {
    if (table.owner(parameter) == parameter) out.push_back(parameter);
  }
  std::ranges::sort(out, {}, [&](int parameter) -> const std::string& { return table[parameter].name; });
  return out;
}

std::vector<int64_t> of_trained(std::vector<int64_t> joined, const plan::ParameterTable& table) {
  joined.resize(static_cast<size_t>(table.size()));
  for (int parameter = 0; parameter < table.size(); ++parameter) {
    if (table[parameter].frozen) joined[static_cast<size_t>(parameter)] = 0;
  }
  return joined;
}

ErrorText text_of_loss(std::string what, int64_t step, std::string fix) {
  return {.title = "the gradient is no longer a number",
          .what = std::move(what),
          .where = cat("step ", step),
          .fix = std::move(fix)};
}

}  // namespace

Updater::Updater(const config::Resolved& config, OptimizerFactory make)
    : config_(config),
      schedule_(optim::read_schedule(config.scheduler)),
      scales_losses_(scales_losses(config)),
      scaler_(loss_scaler(config)) {
  if (make) user_.emplace(std::move(make));
}

void Updater::check_can_move() const {
  if (user_) user_->check_can_move();
}

void Updater::use(UpdateTargets targets, ParameterGroups groups) {
  num_skipped_ = num_skipped();
  optimizer_.reset();
  targets_ = std::move(targets);
  groups_ = std::move(groups);
  joined_ = of_trained(std::move(joined_), *targets_.table);
  if (user_) user_->use(user_targets(), groups_.numbers);
}

void Updater::let_join(const std::vector<int>& parameters) {
  if (!optimizer_) return;
  for (const int parameter : parameters) joined_[static_cast<size_t>(parameter)] = optimizer_->num_steps();
}

// Whole parameters in their shapes where this rank has them, else flat runs.
std::vector<std::vector<UserTarget>> Updater::user_targets() const {
  std::vector<std::vector<UserTarget>> out(groups_.settings.size());
  for (size_t bucket = 0; bucket < targets_.params.size(); ++bucket) {
    const auto add = [&](int group, int64_t first, int64_t count, at::IntArrayRef shape) {
      const auto part = [&](const at::Tensor& flat) {
        return flat.defined() ? flat.narrow(0, first, count).view(shape) : flat;
      };
      out[static_cast<size_t>(group)].push_back(
          {part(targets_.params[bucket]), part(targets_.grads[bucket]), part(targets_.copies[bucket])});
    };
    const auto& parts = targets_.parts[bucket];
    if (targets_.shared_with == nullptr) {
      for (const Part& part : parts) {
        add(groups_.of[static_cast<size_t>(part.parameter)], part.first, part.count,
            (*targets_.table)[part.parameter].shape);
      }
      continue;
    }
    for (const Run& run : runs_of(parts, targets_.params[bucket].numel(), groups_.of)) {
      add(run.group, run.first, run.count, {run.count});
    }
  }
  return out;
}

void Updater::make_optimizer() {
  std::vector<optim::ParamGroup> groups;
  for (const auto& settings : groups_.settings) {
    groups.push_back({.settings = settings,
                      .slices = {},
                      .num_parameters = std::ssize(groups_.of),
                      .state_type = config_.bf16.bf16_optimizer_states ? at::kBFloat16 : at::kFloat});
  }
  slices_.clear();
  for (size_t bucket = 0; bucket < targets_.params.size(); ++bucket) add_slices(bucket, groups);
  // Lamb adds over ranks for every group: whoever owns nothing of one takes part with that.
  for (size_t group = 0; group < groups.size(); ++group) {
    const bool is_lamb = std::holds_alternative<optim::LambSettings>(groups[group].settings);
    if (is_lamb && groups[group].slices.empty()) groups[group].slices.push_back(nothing_of(targets_, group));
  }
  optim::AddOverRanks add;
  if (targets_.shared_with != nullptr) {
    add = [ranks = targets_.shared_with](const at::Tensor& sums) { ranks->all_reduce(sums); };
  }
  optimizer_.emplace(std::move(groups), std::move(add));
}

void Updater::add_slices(size_t bucket, std::vector<optim::ParamGroup>& groups) {
  const at::Tensor &param = targets_.params[bucket], &copy = targets_.copies[bucket];
  const auto& parts = targets_.parts[bucket];
  slices_.emplace_back();
  for (const Run& run : runs_of(parts, param.numel(), groups_.of, joined_)) {
    auto& slices = groups[static_cast<size_t>(run.group)].slices;
    optim::FlatSlice slice{.name = slice_name(bucket, slices_.back().size()),
                           .param = param.narrow(0, run.first, run.count),
                           .grad = targets_.grads[bucket].narrow(0, run.first, run.count),
                           .copy = copy.defined() ? copy.narrow(0, run.first, run.count) : at::Tensor(),
                           .since = run.joined};
    for (const Part& part : parts) {
      if (part.first < run.first || part.first >= run.first + run.count) continue;
      slice.pieces.push_back({.first = part.first - run.first, .count = part.count, .parameter = part.parameter});
    }
    slices_.back().emplace_back(static_cast<size_t>(run.group), slices.size());
    slices.push_back(std::move(slice));
  }
}

// A pass over all gradients, which only clipping needs, and whoever must know whether they are finite.
bool Updater::needs_norm() const {
  return config_.gradient_clipping > 0 || scales_losses_ || user_ || !optimizer_->by_slices() ||
         (config_.bf16.enabled && config_.bf16.check_grad_overflow);
}

bool Updater::update(Reducer& reducer, int64_t step) {
  if (!user_ && !optimizer_) {
    make_optimizer();
    follow_schedule();  // where the first update is left out, the rate is the schedule's all the same
  }
  lost_.reset();
  return needs_norm() ? update_whole(reducer, step) : update_as_they_come(reducer);
}

bool Updater::update_whole(Reducer& reducer, int64_t step) {
  reducer.wait();
  const Span span({.name = "optimizer", .category = SpanCategory::kOptimizer});
  norm_ = global_norm(targets_.grads, targets_.shared_with);
  norm_scale_ = scaler_.scale();
  const bool known = scales_losses_ || user_ || !norm_.on_device().defined();
  if (known && !std::isfinite(norm_.value())) return skip(step);
  num_in_a_row_ = 0;
  follow_schedule();
  if (known) {
    apply(clip_factor(grad_norm(), config_.gradient_clipping) / norm_scale_);
    scaler_.update(false);
  } else {
    optimizer_->step(clip_factor(norm_.on_device(), config_.gradient_clipping));
  }
  return true;
}

void Updater::apply(double grad_scale) {
  if (user_) return user_->step(grad_scale);
  optimizer_->step(grad_scale);
}

// Nobody has to know all gradients first: a bucket is updated while later ones are on their way.
bool Updater::update_as_they_come(Reducer& reducer) {
  follow_schedule();
  optimizer_->begin_step();
  reducer.wait([&](int bucket) {
    const Span span({.name = "optimizer", .category = SpanCategory::kOptimizer, .bucket = bucket});
    for (const auto& [group, slice] : slices_[static_cast<size_t>(bucket)]) optimizer_->step_slice(group, slice);
  });
  return true;
}

// Without a schedule the rate is whatever was set last.
void Updater::follow_schedule() {
  if (std::holds_alternative<optim::FixedLr>(schedule_)) return;
  if (user_) return user_->follow(schedule_);
  optimizer_->follow(schedule_);
}

bool Updater::skip(int64_t step) {
  ++num_skipped_;
  const auto outcome = scales_losses_ ? scaler_.update(true) : optim::LossScaler::Outcome::kSkipped;
  log_warn("step ", step, " skipped: the gradient is not finite (", num_skipped_, " so far)",
           scales_losses_ ? cat("; loss scale ", norm_scale_, " -> ", scaler_.scale()) : "");
  if (outcome == optim::LossScaler::Outcome::kSkippedAtMinimum) {
    lost_ = text_of_loss(cat("at the smallest loss scale, ", norm_scale_), step,
                         "a smaller learning rate or a longer warm-up; or bf16, which needs no loss scale");
  }
  if (scales_losses_ && scaler_.is_dynamic()) return false;
  if (++num_in_a_row_ >= kMaxSkippedInARow) {
    lost_ = text_of_loss(cat(num_in_a_row_, " steps in a row, at learning rate ", lr()), step,
                         "a smaller learning rate, a longer warm-up, or gradient_clipping");
  }
  return false;
}

void Updater::check_hope() const {
  if (lost_) throw GradientsLost(*lost_);
}

double Updater::lr() const { return lrs().back(); }

std::vector<double> Updater::lrs() const {
  if (user_) return user_->lrs();
  std::vector<double> out;
  for (size_t group = 0; group < groups_.settings.size(); ++group) {
    out.push_back(optimizer_ ? optimizer_->lr(group)
                             : optim::lr_at(schedule_, 0, optim::lr_of(groups_.settings[group]), group));
  }
  return out;
}

void Updater::set_lr(double lr) { set_lrs(std::vector<double>(groups_.settings.size(), lr)); }

void Updater::set_lrs(const std::vector<double>& lrs) {
  if (user_) return user_->set_lrs(lrs);
  if (!optimizer_) make_optimizer();
  WEFT_CHECK_EQ(lrs.size(), optimizer_->num_groups());
  for (size_t group = 0; group < lrs.size(); ++group) optimizer_->set_lr(group, lrs[group]);
}

FlatState Updater::state() {
  if (user_) return {};
  if (!optimizer_) make_optimizer();
  const auto named = optimizer_->state();
  const std::map<std::string, at::Tensor> by_name(named.begin(), named.end());
  FlatState out;
  for (size_t bucket = 0; bucket < slices_.size(); ++bucket) {
    for (size_t run = 0; run < slices_[bucket].size(); ++run) {
      const std::string before = slice_name(bucket, run) + ".";
      for (auto at = by_name.lower_bound(before); at != by_name.end() && at->first.starts_with(before); ++at) {
        auto& buckets = out[at->first.substr(before.size())];
        buckets.resize(slices_.size());
        buckets[bucket].push_back(at->second);
      }
    }
  }
  return out;
}

NamedTensors Updater::counters() {
  NamedTensors out;
  if (user_) {
    out.emplace_back(kStep, user_->counter());
  } else {
    if (!optimizer_) make_optimizer();
    for (const auto& [name, tensor] : optimizer_->state()) {
      if (name == kStep) out.emplace_back(name, tensor);
    }
    out.emplace_back(kJoined, joined_by_name());
  }
  if (!scales_losses_) return out;
  const optim::LossScaler::State s = scaler_.state();
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  out.emplace_back(
      kLossScale,
      at::tensor({s.scale, number(s.num_updates), number(s.last_overflow), number(s.hysteresis_left)}, at::kDouble));
  return out;
}

void Updater::set_counters(const NamedTensors& state) {
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(state, [&](const auto& entry) { return entry.first == name; });
  };
  if (!user_) {
    const at::Tensor none = at::zeros_like(joined_by_name());
    set_joined(has(kJoined) ? find_state(state, std::string(kJoined), none.numel()) : none);
  }
  counters().front().second.copy_(find_state(state, std::string(kStep), 1));
  if (!scales_losses_ || !has(kLossScale)) return;  // saved in another precision
  const at::Tensor saved = find_state(state, std::string(kLossScale), 4).to(at::kDouble).contiguous();
  const auto* const numbers = saved.const_data_ptr<double>();
  scaler_.restore({.scale = numbers[0],
                   .num_updates = static_cast<int64_t>(numbers[1]),
                   .last_overflow = static_cast<int64_t>(numbers[2]),
                   .hysteresis_left = static_cast<int64_t>(numbers[3])});
}

at::Tensor Updater::joined_by_name() const {
  std::vector<int64_t> out;
  for (const int parameter : by_name(*targets_.table)) out.push_back(joined_[static_cast<size_t>(parameter)]);
  return at::tensor(out, at::kLong);
}

// Parameters of other ages lie in other runs, each with state of its own.
void Updater::set_joined(const at::Tensor& by_name_given) {
  const at::Tensor given = by_name_given.to(at::kLong).contiguous();
  std::vector<int64_t> joined(joined_.size(), 0);
  const auto* next = given.const_data_ptr<int64_t>();
  for (const int parameter : by_name(*targets_.table)) joined[static_cast<size_t>(parameter)] = *next++;
  joined = of_trained(std::move(joined), *targets_.table);
  if (joined == joined_) return;
  const FlatState before = state();
  const std::vector<double> last_lrs = lrs();
  num_skipped_ = num_skipped();
  joined_ = std::move(joined);
  make_optimizer();
  const FlatState after = state();
  for (const auto& [kind, buckets] : before) {
    for (size_t bucket = 0; bucket < buckets.size(); ++bucket) write_all(after.at(kind)[bucket], buckets[bucket]);
  }
  set_lrs(last_lrs);
}

NamedTensors Updater::user_state(comm::Group& group) {
  NamedTensors out;
  if (!user_) return out;
  const auto saved = exchange_texts(group, user_->save(), targets_.params.front().device());
  for (int rank = 0; rank < group.world(); ++rank) {
    out.emplace_back(checkpoint::user_state_name(rank, group.world()), tensor_of(saved[static_cast<size_t>(rank)]));
  }
  return out;
}

void Updater::set_user_state(comm::Group& group, const NamedTensors& state) {
  if (!user_) return;
  const std::string name = checkpoint::user_state_name(group.rank(), group.world());
  const auto found = std::ranges::find(state, name, &NamedTensors::value_type::first);
  if (found == state.end()) {
    throw Error(ErrorKind::kInput,
                {.title = "the optimizer's state is that of another number of ranks, or of another optimizer",
                 .what = cat("no '", name, "'"),
                 .where = "",
                 .fix = "load what was saved by as many ranks with this optimizer"});
  }
  set_user_bytes(found->second);
}

at::Tensor Updater::user_bytes() const { return tensor_of(user_->save()); }

void Updater::set_user_bytes(const at::Tensor& bytes) {
  const at::Tensor here = bytes.cpu().contiguous();
  const auto* const data = static_cast<const char*>(here.const_data_ptr());
  user_->load({data, data + here.numel()});
}

}  // namespace weft::engine
