// The optimizer's flat state, seen as the model sees it: one tensor to a parameter and kind, whatever the buckets. That is
// what a checkpoint holds, and what survives a new layout.
//
// Free functions over live tensors; ownership stays with the optimizer. Threads: one at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/engine/model_tensors.h"
#include "weft/optim/optimizer.h"
#include "weft/plan/plan.h"

namespace weft::engine {

// The name of a bucket's slice in the optimizer.
std::string slice_name(int bucket);

// By kind ("exp_avg"), then by bucket.
using FlatState = std::map<std::string, std::vector<at::Tensor>>;
FlatState flat_state(optim::Optimizer& optimizer, int num_buckets);

// "exp_avg.h.0.weight", a view in the parameter's shape, for each trainable parameter; and "step".
NamedTensors state_by_parameter(optim::Optimizer& optimizer, const plan::Plan& plan);

// Into an optimizer over another layout of the same parameters.
void carry_over(optim::Optimizer& from, const plan::Layout& from_layout, optim::Optimizer& into,
                const plan::Layout& into_layout);

}  // namespace weft::engine
