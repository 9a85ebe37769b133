// Gradients of a step that was saved under way, into a training that goes on within it.
//
// As many ranks as saved: each its own sums again, so that the step ends with the same bits. Others: what the ranks had added up
// alone is dealt out evenly, so that reducing it gives what it would have given. Where the part of the step that was done is no whole number
// of micro-steps here, nothing is loaded: the step begins anew (Training::done_here).
//
// No collective. Threads: one at a time. Failure: Error(kInput) for damage, IoError.
#pragma once

#include "weft/checkpoint/step_reader.h"
#include "weft/engine/saved_numbers.h"
#include "weft/engine/training.h"

namespace weft::engine {

// Requires: counters are loaded. Drops what the training had of a step.
void read_gradients(checkpoint::StepReader& reader, const SavedNumbers& saved, Training& training);

}  // namespace weft::engine
