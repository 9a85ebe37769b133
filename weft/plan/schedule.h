// The collectives of one step in the order in which every rank calls them, and what they make a rank send.
//
//   stage 0   boundary: all-reduce of each gradient bucket
//   stage 1   boundary: reduce-scatter of each gradient bucket; after the update, all-gather of each parameter bucket
//   stage 2   every micro-step: reduce-scatter; after the update, all-gather
//             with reduce_each, stages 0 and 1 reduce in every micro-step too; with common_parameters, 1 and 2 gather nothing
//             with compress, an all-to-all of compressed slices stands for each reduce-scatter of stages 1 and 2
//   stage 3   every micro-step: all-gather for forward, again for backward, reduce-scatter. Where all parameters may stay
//             gathered (live_elements), once in the step's first micro-step; after the update, those that stay whole. With
//             common_parameters nothing is gathered; with host_copy each bucket after the update, and once for all ranks of
//             a host. This is what a model that touches each bucket once in forward and once in backward would gather: what
//             one does is learnt from it, residency.h
//
// A step is accumulation_steps micro-steps, of which the last is the boundary. Bytes sent are those of the ring: (n-1)/n of
// the bucket for a reduce-scatter or an all-gather, twice that for an all-reduce. Buckets divide by the world, so this
// is exact. Where a host's ranks take a bucket once, each counts its part of what the host sends. The few bytes of the
// gradient norm and of the overflow check are not in it. A world of 1 sends nothing.
//
// Pure functions: any thread. Requires: a stage from 0 to 3.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "weft/plan/plan.h"

namespace weft::plan {

enum class Operation { kAllReduce, kReduceScatter, kAllGather, kAllToAll };
std::string_view name_of(Operation operation);  // "reduce_scatter", as in the flight recorder

enum class Phase { kForward, kBackward, kUpdate };
std::string_view name_of(Phase phase);  // "backward"

struct Collective {
  Operation operation = Operation::kAllReduce;
  Phase phase = Phase::kBackward;
  int bucket = 0;
  int64_t bytes = 0;       // of the whole bucket, in the type that travels
  int64_t sent_bytes = 0;  // by each rank

  bool operator==(const Collective&) const = default;
};

struct Schedule {
  int stage = 0;
  int accumulation_steps = 1;
  // Of the first micro-step, of each one between, and of the last. With one micro-step, that is the last, and has the
  // gathers of a first one too.
  std::vector<Collective> first = {}, middle = {}, boundary = {};

  // Of the whole step.
  int64_t num_collectives() const;
  int64_t sent_bytes() const;
};

Schedule make_schedule(const Plan& plan, int stage);

}  // namespace weft::plan
