// Units that the user holds, and what happens between steps.
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "weft/base/clock.h"
#include "weft/engine/residents.h"
#include "weft/memory/loose_storage.h"
#include "weft/monitor/span.h"

namespace weft::engine {

void Residents::meet(const std::function<void()>& how) {
  const Span span({.name = "wait for ranks", .category = SpanCategory::kExposedWait});
  const Stopwatch watch;
  how();
  totals_.exposed_s += watch.elapsed_s();
}

void Residents::meet() {
  meet([this] { group_.barrier(); });
}

// --- Held by the user ------------------------------------------------------------------------------------------------

void Residents::hold(int bucket) {
  check();
  const at::DisableRecordFunctionGuard unwatched;
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  bring(bucket);
  Unit& it = unit(bucket);
  ++it.num_users;
  ++it.num_holds;
}

void Residents::let_go(int bucket, Writes writes) {
  const at::DisableRecordFunctionGuard unwatched;
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  Unit& it = unit(bucket);
  --it.num_users;
  --it.num_holds;
  if (has_failed_) return;
  if (writes == Writes::kDrop) {
    it.is_written = false;
    // Others go on with it: as it is in the slices.
    if (it.persistent || it.num_users > 0) {
      fetch(bucket);
      if (it.under_way) finish(bucket);
    }
  } else {
    keep_written(it);
  }
  if (it.num_users == 0) leave(bucket);
}

void Residents::write(int bucket, int64_t first, const at::Tensor& values) {
  const at::DisableRecordFunctionGuard unwatched;
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  Unit& it = unit(bucket);
  if (it.under_way) finish(bucket);
  const int64_t own = it.slice.numel() * group_.rank();
  const int64_t from = std::max(first, own), to = std::min(first + values.numel(), own + it.slice.numel());
  if (from < to) it.slice.narrow(0, from - own, to - from).copy_(values.narrow(0, from - first, to - from));
  if (it.whole.defined()) it.whole.narrow(0, first, values.numel()).copy_(values);
}

// What operators wrote meanwhile goes with the rest.
void Residents::before_writing() {
  check();
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  for (int number = 0; number < std::ssize(units_); ++number) {
    if (unit(number).under_way) finish(number);
    unit(number).is_written = false;
    leave(number);
  }
  if (one_sided_) meet();
}

void Residents::after_writing() {
  const at::DisableRecordFunctionGuard unwatched;
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  if (one_sided_) meet();
  for (int number = 0; number < std::ssize(units_); ++number) {
    if (!unit(number).persistent) continue;
    fetch(number);
    if (unit(number).under_way) finish(number);
  }
}

// --- Between steps ---------------------------------------------------------------------------------------------------

void Residents::before_update() {
  check();
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  for (int number = 0; number < std::ssize(units_); ++number) {
    if (unit(number).under_way) finish(number);
  }
  meet([this] { one_sided_ ? group_.barrier() : order_.end_step(next_lane()); });
  for (Unit& it : units_) {
    if (it.is_written) take_slice_again(it);
  }
  for (int number = 0; number < std::ssize(units_); ++number) leave(number);
  remember();
}

// Frozen ones have not changed.
void Residents::after_update() { begin_step(plan_.layout.num_gradient_buckets); }
void Residents::after_load() { begin_step(static_cast<int>(units_.size())); }

void Residents::begin_step(int num_changed) {
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  if (one_sided_) meet();
  // In the order in which forward needs them.
  for (int number = num_changed - 1; number >= 0; --number) {
    if (unit(number).persistent) start(number);
  }
  if (way_ >= 0) advance(plan::kBeforeFirst);
}

void Residents::take_written() {
  check();
  const std::scoped_lock lock(mutex_);
  if (one_sided_) meet();
  for (Unit& it : units_) {
    if (it.is_written) take_slice_again(it);
  }
  if (one_sided_) meet();
}

void Residents::hold_all() {
  check();
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  for (int number = 0; number < std::ssize(units_); ++number) {
    if (!unit(number).whole.defined()) start(number);
    if (unit(number).under_way) finish(number);
  }
  // Whatever is touched from here on is there: nothing of this step's order is to give it back.
  way_ = -1;
}

void Residents::give_up() {
  hold_all();
  gate_->open();
}

void Residents::check() { gate_->rethrow(); }

}  // namespace weft::engine
