// Flat state by bucket, seen as the model sees it: one tensor to a parameter and kind, whatever the buckets and whoever owns
// which part. That is what a checkpoint holds, and what survives a new layout.
//
// Ownership stays with whoever has the flat tensors. Threads: one at a time. Failure: as Group; Error(kInput) for state of
// another model.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/comm/group.h"
#include "weft/engine/model_tensors.h"
#include "weft/plan/plan.h"

namespace weft::engine {

// What this rank has of a bucket, in one piece or several that lie one after the other.
using Pieces = std::vector<at::Tensor>;
// By kind ("exp_avg"), then by bucket.
using FlatState = std::map<std::string, std::vector<Pieces>>;

struct StateOwner {
  const FlatState& flats;
  const plan::Plan& plan;
  comm::Group* shared_with = nullptr;  // whose ranks have a slice each; nobody: null
};

// "exp_avg.h.0.weight", in the parameter's shape, for each trainable parameter. Live views where nothing is shared out or in
// pieces, else copies. A collective where it is shared out.
NamedTensors gather_state(const StateOwner& owner);
// All of one bucket, whoever has which part; copies and collectives as above.
at::Tensor whole_bucket(const Pieces& pieces, comm::Group* shared_with);

// From what gather_state() gave, of this layout or another. Each rank takes its part; no collective.
void set_state(const StateOwner& owner, const NamedTensors& state);

// Writes `values`, one dimension, into the pieces from their element `first` on.
void write_range(const Pieces& pieces, int64_t first, const at::Tensor& values);
// The same elements, in other pieces.
void write_all(const Pieces& pieces, const Pieces& values);

// The one of this name, with so many elements.
at::Tensor find_state(const NamedTensors& state, const std::string& name, int64_t num_elements);

}  // namespace weft::engine
