// "weft": {"bucket": "auto"}: cuts gradients into buckets from a backward that was measured and a link that was tried.
//
// Collectives, made by all ranks at the same place; every rank returns rank 0's result. Threads: one at a time. Failure: as Group.
#pragma once

#include <optional>
#include <vector>

#include "weft/comm/group.h"
#include "weft/engine/reducer.h"
#include "weft/plan/plan.h"
#include "weft/plan/tuning.h"

namespace weft::engine {

// Times an all-reduce of a small and of a large tensor in the type that gradients travel in.
plan::LinkCost measure_link(comm::Group& group, at::ScalarType wire, at::Device device);

struct TunedBuckets {
  std::vector<int> boundaries = {};  // as in LayoutOptions
  plan::LinkCost link = {};
  double exposed_s = 0;  // expected of a step
  double bound_s = 0;    // no cut can do better
  double before_s = 0;   // expected of the cut there was
  int num_buckets = 1;
};

// `log` is of a backward during which nothing was sent, laid out in ready order.
TunedBuckets tune(comm::Group& group, const plan::Plan& plan, const ReadyLog& log, at::ScalarType wire,
                  at::Device device);

}  // namespace weft::engine
