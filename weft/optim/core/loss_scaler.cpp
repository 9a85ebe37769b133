#include "weft/optim/core/loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::optim {
namespace {

// Gradients are divided by the scale in fp32: past 2^127 there is no such number, and from 2^-126 down no exact one.
constexpr int64_t kMaxPower = 127, kMinPower = -126;

void add_unless(bool holds, std::vector<std::string>& problems, std::string problem) {
  if (!holds) problems.push_back(std::move(problem));
}

std::vector<std::string> problems_of(const config::Fp16& fp16) {
  std::vector<std::string> out;
  add_unless(fp16.loss_scale >= 0 && std::isfinite(fp16.loss_scale), out,
             cat("loss_scale is ", fp16.loss_scale, ", expected a finite number, 0 or more"));
  if (fp16.loss_scale > 0) return out;
  add_unless(fp16.initial_scale_power >= kMinPower && fp16.initial_scale_power <= kMaxPower, out,
             cat("initial_scale_power is ", fp16.initial_scale_power, ", expected ", kMinPower, " to ", kMaxPower));
  add_unless(fp16.loss_scale_window > 0, out,
             cat("loss_scale_window is ", fp16.loss_scale_window, ", expected more than 0"));
  // DeepSpeed takes less than 1, and then never lowers the scale: every later update is left out.
  add_unless(fp16.hysteresis >= 1, out, cat("hysteresis is ", fp16.hysteresis, ", expected 1 or more"));
  add_unless(fp16.min_loss_scale > 0, out, cat("min_loss_scale is ", fp16.min_loss_scale, ", expected more than 0"));
  return out;
}

std::vector<std::string> problems_of(const LossScalerSettings& settings) {
  std::vector<std::string> out;
  const auto is_scale = [](double scale) { return scale > 0 && std::isfinite(scale); };
  add_unless(settings.fixed_scale == 0 || is_scale(settings.fixed_scale), out,
             cat("fixed_scale is ", settings.fixed_scale, ", expected a finite number, 0 or more"));
  if (settings.fixed_scale > 0) return out;
  add_unless(is_scale(settings.initial_scale), out,
             cat("initial_scale is ", settings.initial_scale, ", expected a finite number above 0"));
  add_unless(settings.window > 0, out, cat("window is ", settings.window, ", expected more than 0"));
  add_unless(settings.hysteresis >= 1, out, cat("hysteresis is ", settings.hysteresis, ", expected 1 or more"));
  add_unless(is_scale(settings.min_scale), out,
             cat("min_scale is ", settings.min_scale, ", expected a finite number above 0"));
  return out;
}

void throw_unless_none(const std::vector<std::string>& problems, std::string_view where) {
  if (problems.empty()) return;
  throw Error(ErrorKind::kInput, {.title = "the loss scale cannot be made from its settings",
                                  .what = join(problems, "\n         "),
                                  .where = std::string(where),
                                  .fix = "correct them; docs/optimizers.md says what each does"});
}

LossScalerSettings settings_of(const config::Fp16& fp16) {
  return {.fixed_scale = fp16.enabled ? fp16.loss_scale : 1,
          .initial_scale = std::ldexp(1.0, static_cast<int>(fp16.initial_scale_power)),
          .window = fp16.loss_scale_window,
          .hysteresis = fp16.hysteresis,
          .consecutive_hysteresis = fp16.consecutive_hysteresis,
          .min_scale = static_cast<double>(fp16.min_loss_scale)};
}

}  // namespace

LossScaler::LossScaler(const LossScalerSettings& settings) : settings_(settings) {
  throw_unless_none(problems_of(settings), "LossScalerSettings");
  state_.scale = is_dynamic() ? settings.initial_scale : settings.fixed_scale;
  state_.hysteresis_left = settings.hysteresis;
}

LossScaler::Outcome LossScaler::update(bool overflow) {
  Outcome outcome = overflow ? Outcome::kSkipped : Outcome::kStep;
  if (is_dynamic() && overflow) outcome = after_overflow();
  if (is_dynamic() && !overflow) after_success();
  ++state_.num_updates;
  return outcome;
}

// Once the hysteresis is spent every overflow halves, until a doubling (or, if consecutive, a success) refills it.
LossScaler::Outcome LossScaler::after_overflow() {
  state_.last_overflow = state_.num_updates;
  if (state_.hysteresis_left > 1) {
    --state_.hysteresis_left;
    return Outcome::kSkipped;
  }
  const bool at_minimum = state_.scale == settings_.min_scale;
  // A scale that started below the minimum is lifted to it here, as DeepSpeed does.
  state_.scale = std::max(state_.scale / 2, settings_.min_scale);
  return at_minimum ? Outcome::kSkippedAtMinimum : Outcome::kSkipped;
}

// The first success after an overflow, and the very first of all, is not counted: a doubling takes window + 1 then.
void LossScaler::after_success() {
  const int64_t counted = state_.num_updates - state_.last_overflow - 1;
  const bool doubles = counted > 0 && counted % settings_.window == 0;
  if (doubles) state_.scale *= 2;
  if (doubles || settings_.consecutive_hysteresis) state_.hysteresis_left = settings_.hysteresis;
}

void LossScaler::restore(const State& state) {
  state_ = state;
  if (!is_dynamic()) state_.scale = settings_.fixed_scale;
}

LossScaler read_loss_scaler(const config::Fp16& section) {
  if (section.enabled) throw_unless_none(problems_of(section), "fp16");
  return LossScaler(settings_of(section));
}

}  // namespace weft::optim
