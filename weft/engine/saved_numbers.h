// What a checkpoint remembers of a training beside its tensors, as text: a line each, a name and its numbers.
//
//   global_steps 1200
//   lrs 0.001 0.0005
//
// On-disk: a name that is added needs a default, so that older steps can be read. Pure functions. Failure: Error(kInput).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/data/shard.h"

namespace weft::engine {

struct SavedNumbers {
  int64_t global_steps = 0, micro_steps = 0, skipped_steps = 0;
  std::vector<double> lrs = {};       // by parameter group, as they were
  std::vector<double> base_lrs = {};  // and as the config had them
  // Of a step under way, and in the text only then: how many micro-steps of it are done, of how many; samples of one, on one rank;
  // and what losses were multiplied by.
  int64_t in_step = 0, accumulation_steps = 1, micro_batch = 1;
  double loss_scale = 1;
  bool operator==(const SavedNumbers&) const = default;
};

std::string to_text(const SavedNumbers& numbers);
SavedNumbers read_numbers(std::string_view text);

std::string to_text(const data::SamplerState& state);
data::SamplerState read_sampler_state(std::string_view text);

}  // namespace weft::engine
