// Where to cut the gradients into buckets, from how one backward went: a bucket too large starts late, many small ones
// pay the link's latency again and again. The cut found is the best there is under the model, not a guess.
//
//   const Tuning best = tune_buckets({.gradients = measured, .backward_end_s = 0.120,
//                                     .bytes_per_element = 4, .link = {.latency_s = 200e-6, .bytes_per_s = 1e9}});
//   options.layout.boundaries = best.boundaries;
//
// The model: a bucket can be sent once its last gradient is ready and the bucket before it is done; it takes
// latency_s + bytes / bytes_per_s. Exposed is what is left to send when backward ends. With
//
//   finish(i) = min over j < i of  max(finish(j), ready(i)) + latency + bytes(j, i) / rate
//
// the earliest finish is exact, since finishing a prefix earlier never delays what follows. Among the cuts that reach it
// (equal up to rounding: 1e-9 of the time), one with the fewest buckets is returned. O(n^2) time, O(n) memory:
// 2 million steps for 2,000 gradients.
//
// Pure functions: any thread. Failure: Error(kInput) for no gradients or more than 65,536, and for times, counts or rates
// that are out of range.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::plan {

struct ReadyGradient {
  double ready_s = 0;  // since backward began
  int64_t num_elements = 0;
};

// One collective at a time. The rate is that of a bucket's bytes: for a ring all-reduce of n ranks on links of rate B,
// bytes_per_s is B * n / (2 (n - 1)).
struct LinkCost {
  double latency_s = 0;
  double bytes_per_s = 1e9;
};

struct TuningInput {
  std::vector<ReadyGradient> gradients = {};  // in the ready order; a time before its predecessor's counts as that
  double backward_end_s = 0;
  int64_t bytes_per_element = 4;
  LinkCost link = {};
  // No bucket of several gradients has more, so that what is done with a bucket on arrival can hide behind the next; 0: any.
  int64_t max_elements = 0;
};

struct Tuning {
  std::vector<int> boundaries = {};  // as in LayoutOptions: empty for one bucket
  double exposed_s = 0;
  // No cut can expose less: what comes ready last must still be sent, with everything that has not been.
  double lower_bound_s = 0;
};

Tuning tune_buckets(const TuningInput& input);

// The same where buckets are updated as they come, one after the other, once backward has ended: on a slow link many small buckets
// hide the update of all but the last behind the wire; on a fast one all are there already, and each is only work for the host, which
// the link's latency stands for. Tries several largest sizes and takes the cut that is through with everything first.
// Replaces max_elements. `update_s` is the time for all elements; a guess will do, since it only weighs the two against each other.
Tuning tune_with_update(TuningInput input, double update_s);

// When the last bucket is updated, since backward began, under that model.
double updated_at_s(const TuningInput& input, const std::vector<int>& boundaries, double update_s);

// What the model predicts for a given cut. Requires: boundaries as in LayoutOptions.
double exposed_time_s(const TuningInput& input, const std::vector<int>& boundaries);

}  // namespace weft::plan
