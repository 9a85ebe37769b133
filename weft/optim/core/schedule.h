// Learning rates (and, for OneCycle, betas) as pure functions of the step: nothing to save, nothing to restore. The
// names, parameters and defaults are DeepSpeed's, and torch.optim.lr_scheduler's for the three it has not.
//
//   const Schedule schedule = read_schedule(resolved.scheduler, num_groups);   // schedule_settings.h
//   optimizer.set_lr(group, lr_at(schedule, step, base_lr, group));
//
// `step` counts the updates made so far: 0 gives the rate of the first update. DeepSpeed counts its own batches from
// -1, so that its t is step - 1; torch's last_epoch is step. Plain values, any thread, no failure once read.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace weft::optim {

// One value for every parameter group, or one for each.
struct PerGroup {
  std::vector<double> values;

  PerGroup(double value) : values{value} {}  // NOLINT(google-explicit-constructor): a number is the usual case
  explicit PerGroup(std::vector<double> each) : values(std::move(each)) {}
  // Requires: a group that has a value.
  double at(size_t group) const { return values.size() == 1 ? values.front() : values.at(group); }
};

struct Betas {
  double first = 0.9, second = 0.999;
};

// The optimizer's own rate, always: what a config without a scheduler means.
struct FixedLr {};

struct Warmup {
  enum class Shape { kLog, kLinear };
  int64_t num_steps = 1000;  // fewer than 2 count as 2
  Shape shape = Shape::kLog;
  // 0 at t = 0, 1 at num_steps (log: one step earlier) and after.
  double progress(int64_t t) const;
  bool covers(int64_t t) const { return t < steps(); }
  int64_t steps() const { return num_steps < 2 ? 2 : num_steps; }
};

struct WarmupLr {
  PerGroup min_lr = 0;
  std::optional<PerGroup> max_lr = {};  // none: the optimizer's own rate
  Warmup warmup = {};
  int64_t last_batch_iteration = -1;
};

// Then linearly down to min_lr at total_num_steps.
struct WarmupDecayLr {
  int64_t total_num_steps = 0;
  PerGroup min_lr = 0, max_lr = 0.001;
  Warmup warmup = {};
  int64_t last_batch_iteration = -1;
};

// Ratios of the optimizer's own rate. The first update is made with a rate of 0, whatever the minimum.
struct WarmupCosineLr {
  int64_t total_num_steps = 0;
  double warmup_min_ratio = 0, cos_min_ratio = 0.0001;
  Warmup warmup = {};
  int64_t last_batch_iteration = -1;
};

struct OneCycle {
  PerGroup min_lr = 0, max_lr = 0;
  double decay_lr_rate = 0;
  double first_step_size = 2000;
  std::optional<double> second_step_size = {};  // none: as the first
  int64_t first_stair_count = 0;
  std::optional<int64_t> second_stair_count = {};  // none: as the first
  double decay_step_size = 0;
  bool cycle_momentum = true;
  PerGroup min_mom = 0.8, max_mom = 0.9;
  double decay_mom_rate = 0;
  int64_t last_batch_iteration = -1;
};

struct LrRangeTest {
  PerGroup min_lr = 1e-3;
  int64_t step_size = 2000;
  double step_rate = 1;
  bool staircase = false;
  int64_t last_batch_iteration = -1;
};

// torch's: `factor` of the rate for the first total_iters updates.
struct ConstantLr {
  double factor = 1.0 / 3;
  int64_t total_iters = 5;
};

struct LinearLr {
  double start_factor = 1.0 / 3, end_factor = 1;
  int64_t total_iters = 5;
};

// The closed form; past t_max it rises again, as torch's does.
struct CosineAnnealingLr {
  int64_t t_max = 0;
  double eta_min = 0;
};

using Schedule = std::variant<FixedLr, WarmupLr, WarmupDecayLr, WarmupCosineLr, OneCycle, LrRangeTest, ConstantLr,
                              LinearLr, CosineAnnealingLr>;

// `base_lr` is the optimizer's own rate for that group.
double lr_at(const Schedule& schedule, int64_t step, double base_lr, size_t group = 0);

// Of schedules that move them: OneCycle with cycle_momentum. None: the optimizer's own.
std::optional<Betas> betas_at(const Schedule& schedule, int64_t step, size_t group = 0);

}  // namespace weft::optim
