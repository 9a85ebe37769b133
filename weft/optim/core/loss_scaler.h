// The loss scale of fp16 training: the loss is multiplied by it so that small gradients survive, and gradients are divided by
// it before the update. Where they overflowed the update is left out and the scale comes down; after a while without
// overflow it goes up again. DeepSpeed's rule, to the bit, with its defaults.
//
//   LossScaler scaler = read_loss_scaler(resolved.fp16);   // or LossScaler({.initial_scale = 1024})
//   const double scale = scaler.scale();
//   (loss * scale).backward();
//   if (scaler.update(has_overflow) == LossScaler::Outcome::kStep) optimizer.step(1 / scale);   // the scale of backward
//
// All ranks must be told the same: whether any of them overflowed. A value: one thread at a time. Failure: making one throws
// Error(kInput) with everything that is wrong about its settings.
#pragma once

#include <cstdint>

#include "weft/config/resolved.h"

namespace weft::optim {

struct LossScalerSettings {
  double fixed_scale = 0;  // above 0: this scale, always, and the rest has no effect
  double initial_scale = 65536;
  int64_t window = 1000;   // updates without overflow from one doubling to the next
  int64_t hysteresis = 2;  // this many overflows make the first halving; 1: each one halves
  bool consecutive_hysteresis = false;
  double min_scale = 1;
};

class LossScaler {
 public:
  enum class Outcome {
    kStep,              // make the update
    kSkipped,           // leave it out
    kSkippedAtMinimum,  // leave it out; the scale should have come down and could not. DeepSpeed ends the run here
  };

  // All that changes. Restored, the scaler goes on as the one it was taken from.
  struct State {
    double scale = 1;
    int64_t num_updates = 0;     // calls of update()
    int64_t last_overflow = -1;  // which of them overflowed last, from 0
    int64_t hysteresis_left = 0;
    bool operator==(const State&) const = default;
  };

  explicit LossScaler(const LossScalerSettings& settings);

  double scale() const { return state_.scale; }
  bool is_dynamic() const { return settings_.fixed_scale <= 0; }
  // Once for every update, made or not.
  Outcome update(bool overflow);

  const State& state() const { return state_; }
  // A fixed scale stays what the settings say.
  void restore(const State& state);

 private:
  Outcome after_overflow();
  void after_success();

  LossScalerSettings settings_;
  State state_;
};

// Of a section that is not enabled: 1, always.
LossScaler read_loss_scaler(const config::Fp16& section);

}  // namespace weft::optim
