// A model's weights to safetensors files, one tensor after the other: nobody needs room for the whole model.
//
// Rank 0 writes. The files get their names when all of them are on the disk; what an earlier save left under other names of the
// same kind goes before. A folder thus holds a whole model, or, after a crash at the wrong moment, one that readers refuse; never two
// mixed. Threads: one at a time. Failure: Error naming the file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/checkpoint/safetensors.h"

namespace weft {

struct SaveModelOptions {
  // Of tensors in one file, beyond which another begins, with an index of all; a larger tensor has a file of its own. Hugging Face's.
  int64_t max_shard_bytes = 5'000'000'000;
  bool exclude_frozen_parameters = false;
};

namespace engine {

struct WeightSource {
  std::vector<checkpoint::TensorSpec> specs;
  std::function<at::Tensor(size_t number)> tensor;  // once each, in order
};

// A path that ends with ".safetensors" is one file, whatever its size; another is a folder.
void save_model_files(Env& env, const std::string& path, const WeightSource& source, const SaveModelOptions& options);

}  // namespace engine
}  // namespace weft
