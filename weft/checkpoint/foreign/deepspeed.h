// A DeepSpeed checkpoint as tensors by name: fp32 weights put together from the ranks' flat groups, the optimizer's state of each, frozen
// parameters, buffers, and the numbers that a training goes on with. Reads layouts, no weights; tensors are read by range.
//
//   const auto files = open_deepspeed(env, "run/", "");
//   for (const DeepSpeedTensor& tensor : read_deepspeed(*files).tensors) ...
//
// Stages 1 and 2 lay each group of parameters flat and cut that into as many partitions as ranks, the last one padded; stage 3 cuts each
// parameter, so that a rank's flat group has its part of every one. Stage 0 saves no names with the optimizer: its state is taken where the
// groups name their parameters, where the model's order and the shapes leave one way only, or else left out.
//
// Ownership: tensors share the open files. Threads: one at a time. Failure: Error(kInput) that names the file and what does not add up.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/checkpoint/foreign/deepspeed_files.h"
#include "weft/checkpoint/foreign/element_runs.h"

namespace weft::checkpoint::foreign {

struct DeepSpeedTensor {
  enum class Role { kParameter, kOptimizer, kBuffer } role = Role::kParameter;
  std::string kind = {};  // of optimizer state: exp_avg, exp_avg_sq, ...
  std::string name = {};
  std::vector<int64_t> shape = {};
  std::string dtype = {};
  ElementRuns elements = {};
};

// As a dynamic loss scaler has it.
struct DeepSpeedScale {
  double scale = 1;
  int64_t num_updates = 0, last_overflow = -1, hysteresis_left = 1;
};

struct DeepSpeedCheckpoint {
  std::string version = {};  // of DeepSpeed
  int stage = 0;
  int world = 1;
  int64_t global_steps = 0, skipped_steps = 0, micro_steps = 0;
  int64_t optimizer_step = 0;  // updates made
  std::optional<DeepSpeedScale> scale = {};
  std::vector<DeepSpeedTensor> tensors = {};
  std::map<std::string, std::string> client = {};  // what the program saved beside it, where it is a word or a number
  std::vector<std::string> left_out = {};
};

DeepSpeedCheckpoint read_deepspeed(const DeepSpeedFiles& files);

}  // namespace weft::checkpoint::foreign
