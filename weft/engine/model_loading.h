// Weights out of safetensors files or pytorch_model.bin, straight to where they are kept: a rank reads its own part of a parameter
// and nothing else.
//
//   auto model = [&] {
//     const weft::ShardedInit scope(config, world);
//     auto built = std::make_shared<MyModel>();
//     weft::load_weights(*built, "llama/");         // a file, an index, or a folder with one of them
//     return built;
//   }();
//   auto engine = weft::initialize(model, config, world);
//
// or after initialize(), which costs the same. Parameters in slices get theirs; what a ShardedInit has cut stays cut; the fp32 masters
// of a narrower model get what the file has; other tensors are read whole. Floating-point types are converted.
//
// A collective, where the model is an engine's or came out of a ShardedInit: all ranks call it with the same files. Threads: as
// Engine; not while a GatheredParameters lives. Failure: Error(kInput), on all ranks, that lists all names which the file or the model
// does not have and all other shapes and types, before anything is written; IoError and Error of the reader
// (weft/checkpoint/weight_files.h), after which the weights are undefined.
#pragma once

#include <cstdint>
#include <string>

#include "weft/engine/model_tensors.h"

namespace weft {

struct LoadWeightsOptions {
  bool strict = true;  // false: names that only one side has are left out; shapes and types must fit all the same
};

struct LoadedWeights {
  int64_t num_tensors = 0;
  int64_t read_bytes = 0;  // of tensors, by this rank
};

LoadedWeights load_weights(const engine::ModelTensors& model, const std::string& path,
                           const LoadWeightsOptions& options = {});

template <typename Module>
LoadedWeights load_weights(const Module& model, const std::string& path, const LoadWeightsOptions& options = {}) {
  return load_weights(engine::tensors_of(model), path, options);
}

}  // namespace weft
