// A plan: what one step of training stores and sends, decided before anything runs. The engine executes it, the simulator
// prices it, the doctor checks it, a checkpoint records it.
//
//   const Plan plan = make_plan(table, options_from(config, world.size()));
//   make_ledger(plan, 2).total();            // ledger.h: bytes a rank holds
//   make_schedule(plan, 2).sent_bytes();     // schedule.h: bytes a rank sends in a step
//   hashes_of(describe(plan)).all;           // agreement.h: equal on every rank, or the ranks do not train one model
//
// Plain values, the same on every rank for the same input: any thread. Failure: Error(kInput), of layout.h or for options
// that are out of range.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "weft/config/resolved.h"
#include "weft/plan/layout.h"

namespace weft::plan {

inline constexpr int kMaxStage = 3;
inline constexpr int kMaxAccumulationSteps = 16'384;
inline constexpr int64_t kMaxStateBytes = 1024;
// Compressed gradients: so many int8 share one fp32 scale. Larger blocks send less, smaller ones round less; here scales
// are 1.6 % of what is sent.
inline constexpr int64_t kCompressBlock = 256;

// Stage 3 gathers a bucket at once: none of several parameters has more than this many elements, so that what is ahead of its use
// is small against what is in use. Links of 1 to 10 Gbit/s are busy with less.
inline constexpr int64_t kMaxUnitElements = 4'194'304;

// What the optimizer keeps for each element it updates.
struct OptimizerCost {
  int64_t state_bytes_per_element = 8;  // Adam: two moments in fp32
  bool fp32_copy = true;                // of fp16 and bf16 parameters; others need none

  bool operator==(const OptimizerCost&) const = default;
};

struct PlanOptions {
  LayoutOptions layout = {};
  int stage = 0;                   // 0: nothing is sharded; 1: optimizer state; 2: and gradients; 3: and parameters
  int accumulation_steps = 1;      // micro-steps in a step
  bool counts_micro_steps = true;  // else a step has as many as the user makes before he ends it
  bool overlap = true;             // reduce one bucket while the next is filled
  std::optional<Dtype> gradient_dtype = {};  // that gradients are kept in; absent: the parameter's
  std::optional<Dtype> wire_dtype = {};      // that gradients travel in; absent: the one they are kept in
  bool shard_update = false;                 // stage 0: the optimizer's work and state are shared out, as in stage 1
  bool common_parameters = false;  // stages 1 to 3: the ranks' parameters are one memory, so there is nothing to gather
  // Stage 3: so many ranks, those of a host, have one copy of the parameters in common, which hosts bring up to date after the
  // update; 0: they do not. Divides the world.
  int host_copy = 0;
  bool reduce_each = false;  // stages 0 and 1: every micro-step, as stage 2 does
  bool compress = false;     // where the update is shared out: gradients travel as int8 with a scale for each block
  OptimizerCost optimizer = {};
  int64_t live_elements = 1'000'000'000;  // stage 3: gathered at any time

  bool operator==(const PlanOptions&) const = default;
};

struct Plan {
  ParameterTable table;
  PlanOptions options;
  Layout layout;
};

Plan make_plan(ParameterTable table, PlanOptions options);

// What of a config concerns a plan. Without overlap there is no small first bucket: it would cost a latency and hide nothing.
PlanOptions options_from(const config::Resolved& config, int world);

// Has each `num_ranks` ranks keep a copy in common.
void keep_in_host(int num_ranks, PlanOptions& options);

// The types of one bucket's gradients, in memory and on the wire.
Dtype gradient_dtype(const PlanOptions& options, const Bucket& bucket);
Dtype wire_dtype(const PlanOptions& options, const Bucket& bucket);

// A slice as it travels when compressed: its int8, then the scales of its blocks.
int64_t compressed_bytes(int64_t slice_elements);

// The stage that counts: with one rank there is nobody to share with, so every stage is stage 0; and stage 0 is stage 1 where
// the update is shared out.
int effective_stage(const Plan& plan, int stage);
// Whether parameters are where operators read them, in memory that ranks have in common: nothing is gathered when it is touched.
bool reads_in_place(const PlanOptions& options);
// Whether gradients are reduced in every micro-step and the results added up.
bool adds_reduced(const Plan& plan, int stage);

// How many buffers gradient buckets take turns in; 0: each has memory of its own. With overlap one is reduced while the next is filled.
int num_gradient_buffers(const Plan& plan, int stage);
// The same for what travels, where that is another type than the gradients'. Two, so that one is on the wire while the next is made;
// more would only wait in line.
int num_wire_buffers(const Plan& plan, int stage);
// Buckets of one type take turns in so many buffers, in their order: how long each is, to take the longest of its own.
// Requires: at least one buffer.
std::vector<int64_t> buffer_elements(const std::vector<int64_t>& bucket_elements, int num_buffers);

}  // namespace weft::plan
