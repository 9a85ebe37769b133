// When gradients of a model in training are reduced: which backward is a step's last, and what one leaves for later.
#include <algorithm>

#include "weft/base/log.h"
#include "weft/base/units.h"
#include "weft/engine/training.h"

namespace weft::engine {

// A micro-step is a backward(); where several were made before step(), it counts them all.
bool Training::at_boundary() const {
  if (num_no_sync_ > 0) return false;
  if (!config_.managed_gradient_accumulation) return true;
  return in_step_ + std::max<int64_t>(1, num_unstepped_) >= config_.gradient_accumulation_steps;
}

// Where nobody counts, any backward may be the last: what cannot be added to once it is reduced waits for step(). Alone, autograd can
// add to a bucket at any time.
bool Training::reduces() const {
  if (num_no_sync_ > 0) return false;
  if (plan::adds_reduced(*plan_, plan_->options.stage)) return true;
  if (config_.managed_gradient_accumulation) return at_boundary();
  return world_.size == 1 && reducer_->keeps_in_buckets();
}

// To hide the wire behind the rest of backward; in stages 2 and 3 also to keep no gradient longer than it takes to fill a bucket. Without
// overlap, and before anything is learnt, a gradient that comes again when its bucket has left must be ruled out first.
bool Training::goes_at_once(const at::Tensor& loss) const {
  if (!reduces() || (learnt_ && is_learning())) return false;
  if (learnt_ && plan_->options.overlap) return true;
  return (learnt_ ? stage() >= 2 : learns_in_step()) && each_comes_once(loss);
}

// Sums of this step have their places already: they stay, and what was to be decided is in the next one; or they move along.
void Training::reduce_held() {
  if (is_learning() && !has_reduced_ && (learnt_ || !learns_in_step())) decide_buckets();
  reducer_->reduce_held();
  has_reduced_ = true;
  holds_ = false;
}

void Training::hold_back(int change) {
  num_no_sync_ += change;
  if (change > 0) tell_of_whole_gradients("no_sync()", "", has_told_no_sync_);
}

// A graph that may bring a gradient twice, as one with recomputation, is waited for to its end; not only while something is learnt.
void Training::tell_of_waiting(bool at_once) {
  if (at_once || !reduces() || is_learning() || world_.size == 1) return;
  tell_of_whole_gradients("a backward with functions of your own", "; \"overlap_comm\": true sends them as they come",
                          has_told_waiting_);
}

void Training::tell_of_whole_gradients(std::string_view what, std::string_view fix, bool& has_told) const {
  if (stage() < 2 || has_told) return;
  has_told = true;
  if (world_.rank != 0) return;
  int64_t bytes = 0;
  for (const plan::Bucket& bucket : plan_->layout.gradient_buckets())
    bytes += bucket.used_elements() * plan::bytes_of(gradient_dtype(plan_->options, bucket));
  log_info(what, " in stage ", stage(),
           " keeps whole gradients until they are reduced: ", format_bytes(static_cast<uint64_t>(bytes)),
           " more a rank", fix);
}

// What it costs that nobody counts micro-steps.
void Training::tell_of_accumulation() const {
  if (config_.managed_gradient_accumulation || world_.rank != 0 || world_.size == 1) return;
  if (plan::adds_reduced(*plan_, plan_->options.stage) || !plan_->options.overlap) return;
  log_warn(
      "\"overlap_comm\" has no effect with \"managed_gradient_accumulation\": false: any backward() may be followed "
      "by ",
      "another, so that gradients are reduced in step(); \"weft\": {\"reduce_each\": \"micro_step\"} reduces those of "
      "each");
}

}  // namespace weft::engine
