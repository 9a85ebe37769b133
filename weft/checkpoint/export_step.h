// Parameters of a saved step as the files others read: model.safetensors, or several with an index, named and laid out as
// Hugging Face does. Streamed: one piece of a tensor in memory, whatever its size.
//
//   export_step(env, {.step = 12, .folder = "ckpt/step_00000012"}, "out", {.dtype = "BF16"});
//
// Every file appears whole or not at all, the index last. Threads: one call per folder at a time. Failure: Error(kInput) for damage,
// for a step without parameters, for a folder that holds such files already; IoError.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/checkpoint/store.h"

namespace weft::checkpoint {

struct ExportOptions {
  std::string dtype = {};  // F32, BF16 or F16, for tensors of these types; "": as saved
  uint64_t max_file_bytes = 5'000'000'000;
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress = {};  // bytes written
};

struct Exported {
  std::vector<std::string> files;  // with the folder in front
  uint64_t num_tensors = 0, bytes = 0;
};

Exported export_step(Env& env, const StepPlace& place, const std::string& out_folder, const ExportOptions& options);

}  // namespace weft::checkpoint
