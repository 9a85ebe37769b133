// Parameters that ranks choose from, each its own, as one unit of stage 3: the experts of a layer.
//
//   weft::gather_together(layer->experts->parameters());          // before initialize(), also inside a ShardedInit
//   auto engine = weft::initialize(model, config, world);
//
// Whichever of them is touched, all of them come, so that ranks which touch different ones still gather the same. Needed where ranks
// cannot read each other's memory; elsewhere, and below stage 3, it changes nothing that can be seen. All ranks give the same groups in
// the same order. The next engine whose model has them takes them; those of a tensor that is gone are forgotten.
//
// Ownership: parameters are the caller's own, and nothing of them is kept alive. Threads: any. Failure: Error(kInput) for a
// tensor that is in a group already or that an engine trains already; initialize() throws it for a group of which the model has only
// some, and for views of its parameters. A group of which it has none waits for another engine, which the log says.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/engine/model_tensors.h"

namespace weft {

void gather_together(const std::vector<at::Tensor>& parameters);

namespace engine {
// Those of this model, which are nobody else's from here on.
std::vector<std::vector<at::Tensor>> take_groups(const ModelTensors& model);
}  // namespace engine

}  // namespace weft
