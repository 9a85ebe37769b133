// From one layout to another: what ranks have slices of goes bucket by bucket, so that nobody ever has all of it whole.
#include <c10/core/GradMode.h>

#include "weft/engine/training.h"

namespace weft::engine {

// Masters with optimizer state move as the state does.
Training::Moving Training::what_moves() const {
  Moving out;
  if (!reducer_) return out;
  out.layout = plan_->layout;
  if (!updater_.has_state()) out.masters = masters_;
  if (!has_reduced_ || !reducer_->adds_up()) return out;
  reducer_->wait();
  for (int bucket = 0; bucket < buckets_->size(); ++bucket) out.sums.push_back(reducer_->result(bucket));
  return out;
}

void Training::move(const Moving& from) {
  const at::NoGradGuard no_grad;
  if (!masters_.empty()) move_to(masters_, from.layout, from.masters);
  if (from.sums.empty()) return;
  std::vector<at::Tensor> sums;
  for (int bucket = 0; bucket < buckets_->size(); ++bucket) sums.push_back(reducer_->result(bucket));
  move_to(sums, from.layout, from.sums);
  reducer_->go_on_from_results();
}

// Collectives, one to a bucket of the old layout. What has been frozen since stays behind.
void Training::move_to(const std::vector<at::Tensor>& now, const plan::Layout& before,
                       const std::vector<at::Tensor>& slices) {
  for (size_t bucket = 0; bucket < slices.size(); ++bucket) {
    const at::Tensor whole = whole_bucket({slices[bucket]}, sharers());
    for (const plan::Place& place : before.bucket(static_cast<int>(bucket)).places) {
      if (plan_->table[place.parameter].frozen) continue;
      write_part({now[static_cast<size_t>(plan_->layout.home(place.parameter).bucket)]}, place.parameter,
                 whole.narrow(0, place.begin, place.num_elements));
    }
  }
}

}  // namespace weft::engine
