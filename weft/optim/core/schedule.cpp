#include "weft/optim/core/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft::optim {
namespace {

double between(double low, double high, double part) { return low + (high - low) * part; }

// 1 at 0, 0 at 1.
double half_cosine(double part) { return (1 + std::cos(std::numbers::pi * part)) / 2; }

// --- OneCycle --------------------------------------------------------------------------------------------------------

double second_size(const OneCycle& s) { return s.second_step_size.value_or(s.first_step_size); }
double cycle_size(const OneCycle& s) { return s.first_step_size + second_size(s); }

// Where the cycle stands after `done` batches: 0 at its ends, 1 at the peak.
double smooth_height(const OneCycle& s, double done) {
  const double turn = 1 + done / cycle_size(s);
  const double x = turn - std::floor(turn), peak = s.first_step_size / cycle_size(s);
  return x <= peak ? x / peak : (x - 1) / (peak - 1);
}

// From the batch count rather than from the smooth height: that may fall an ulp short of a stair.
double stair_height(const OneCycle& s, double done, double stairs) {
  const double at = std::fmod(done, cycle_size(s));
  const double position =
      at <= s.first_step_size ? at * stairs / s.first_step_size : (cycle_size(s) - at) * stairs / second_size(s);
  return std::floor(position) / stairs;
}

double height(const OneCycle& s, int64_t t) {
  const auto done = static_cast<double>(t + 1);
  const double turn = 1 + done / cycle_size(s);
  const bool rising = turn - std::floor(turn) <= s.first_step_size / cycle_size(s);
  const int64_t stairs = rising ? s.first_stair_count : s.second_stair_count.value_or(s.first_stair_count);
  return stairs > 0 ? stair_height(s, done, static_cast<double>(stairs)) : smooth_height(s, done);
}

bool in_cycle(const OneCycle& s, int64_t t) { return static_cast<double>(t) < cycle_size(s); }

// 1 + rate for every decay_step_size batches since the cycle ended; 1 where there is no decay.
double decay_factor(const OneCycle& s, int64_t t, double rate) {
  if (rate == 0 || s.decay_step_size == 0) return 1;
  return 1 + rate * ((static_cast<double>(t) - cycle_size(s) + 1) / s.decay_step_size);
}

// --- One function a schedule -----------------------------------------------------------------------------------------

struct LrAt {
  int64_t step;
  double base_lr;
  size_t group;

  double operator()(const FixedLr&) const { return base_lr; }

  double operator()(const WarmupLr& s) const {
    const int64_t t = s.last_batch_iteration + step;
    const double low = s.min_lr.at(group), high = s.max_lr ? s.max_lr->at(group) : base_lr;
    return t < 0 ? low : between(low, high, s.warmup.progress(t));
  }

  double operator()(const WarmupDecayLr& s) const {
    const int64_t t = s.last_batch_iteration + step;
    const double low = s.min_lr.at(group), high = s.max_lr.at(group);
    if (t < 0) return low;
    if (s.warmup.covers(t)) return between(low, high, s.warmup.progress(t));
    const auto left = static_cast<double>(s.total_num_steps - t);
    const auto span = static_cast<double>(std::max<int64_t>(1, s.total_num_steps - s.warmup.steps()));
    return between(low, high, std::max(0.0, left / span));
  }

  double operator()(const WarmupCosineLr& s) const {
    const int64_t t = s.last_batch_iteration + step;
    if (t < 0) return 0;
    if (s.warmup.covers(t)) return base_lr * between(s.warmup_min_ratio, 1, s.warmup.progress(t));
    const auto done = static_cast<double>(t - s.warmup.steps() + 1);
    const auto span = static_cast<double>(std::max<int64_t>(1, s.total_num_steps - s.warmup.steps()));
    return base_lr * std::max(0.0, between(s.cos_min_ratio, 1, half_cosine(std::min(1.0, done / span))));
  }

  double operator()(const OneCycle& s) const {
    const int64_t t = s.last_batch_iteration + step;
    if (t < 0) return s.min_lr.at(group);
    if (in_cycle(s, t)) return between(s.min_lr.at(group), s.max_lr.at(group), height(s, t));
    return s.min_lr.at(group) / decay_factor(s, t, s.decay_lr_rate);
  }

  double operator()(const LrRangeTest& s) const {
    const int64_t t = s.last_batch_iteration + step;
    const double interval = static_cast<double>(t + 1) / static_cast<double>(s.step_size);
    return s.min_lr.at(group) * (1 + s.step_rate * (s.staircase ? std::floor(interval) : interval));
  }

  double operator()(const ConstantLr& s) const { return step < s.total_iters ? base_lr * s.factor : base_lr; }

  double operator()(const LinearLr& s) const {
    const double part = static_cast<double>(std::min(step, s.total_iters)) / static_cast<double>(s.total_iters);
    return base_lr * between(s.start_factor, s.end_factor, part);
  }

  double operator()(const CosineAnnealingLr& s) const {
    return between(s.eta_min, base_lr, half_cosine(static_cast<double>(step) / static_cast<double>(s.t_max)));
  }
};

}  // namespace

double Warmup::progress(int64_t t) const {
  if (!covers(t)) return 1;
  const auto total = static_cast<double>(steps()), done = static_cast<double>(t);
  return shape == Shape::kLinear ? done / total : std::log(done + 1) / std::log(total);
}

double lr_at(const Schedule& schedule, int64_t step, double base_lr, size_t group) {
  return std::visit(LrAt{step, base_lr, group}, schedule);
}

std::optional<Betas> betas_at(const Schedule& schedule, int64_t step, size_t group) {
  constexpr double kSecond = 0.99;  // DeepSpeed's, whatever the optimizer was given
  const auto* const s = std::get_if<OneCycle>(&schedule);
  if (s == nullptr || !s->cycle_momentum) return std::nullopt;
  const int64_t t = s->last_batch_iteration + step;
  const double low = s->min_mom.at(group), high = s->max_mom.at(group);
  // The first update takes the low end where the cycle would begin at the high one: so does DeepSpeed.
  if (t < 0) return Betas{low, kSecond};
  if (in_cycle(*s, t)) return Betas{high - (high - low) * height(*s, t), kSecond};
  return Betas{high * decay_factor(*s, t, s->decay_mom_rate), kSecond};
}

}  // namespace weft::optim
