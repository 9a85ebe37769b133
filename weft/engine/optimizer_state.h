// The optimizer's flat state, seen as the model sees it: one tensor to a parameter and kind, whatever the buckets and whoever owns
// which part. That is what a checkpoint holds, and what survives a new layout.
//
// Ownership stays with the optimizer. Threads: one at a time. Failure: as Group; Error(kInput) for state of another model.
#pragma once

#include <string>

#include "weft/comm/group.h"
#include "weft/engine/model_tensors.h"
#include "weft/optim/optimizer.h"
#include "weft/plan/plan.h"

namespace weft::engine {

// The name of a bucket's slice in the optimizer.
std::string slice_name(int bucket);

// An optimizer, the layout it works on, and with whom its state is shared out (nobody: null).
struct StateOwner {
  optim::Optimizer& optimizer;
  const plan::Plan& plan;
  comm::Group* shared_with = nullptr;
};

// "exp_avg.h.0.weight", in the parameter's shape, for each trainable parameter; and "step". Live views where nothing is shared
// out, else copies: a collective then.
NamedTensors gather_state(const StateOwner& owner);

// From what gather_state() gave, of this layout or another. Each rank takes its part; no collective.
void set_state(const StateOwner& owner, const NamedTensors& state);

}  // namespace weft::engine
