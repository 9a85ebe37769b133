// The files of a DeepSpeed checkpoint, by rank:
//
//   DIR/latest                                                      which of the folders is meant
//   DIR/global_step12/mp_rank_00_model_states.pt                    stages 0 to 2
//   DIR/global_step12/zero_pp_rank_R_mp_rank_00_model_states.pt     stage 3, of each rank
//   DIR/global_step12/zero_pp_rank_R_mp_rank_00_optim_states.pt     stages 1 to 3, of each rank; with bf16_ in front in bf16
//
// Refused, with what it is: tensor and pipeline parallelism, experts, a rank's file that is missing, tags that lead out of the folder.
//
// Threads: pure functions over an Env. Failure: Error(kInput); as TorchFile.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/checkpoint/foreign/torch_file.h"

namespace weft::checkpoint::foreign {

struct DeepSpeedFiles {
  std::string folder = {}, tag = {};                    // of the files, and its name
  std::vector<std::shared_ptr<TorchFile>> models = {};  // one, or one for each rank
  std::vector<std::shared_ptr<TorchFile>> optims = {};  // one for each rank; none in stage 0
};

// `source` is the folder with `latest`, or that of the files themselves; an empty tag: what `latest` says. Nothing where the source
// is something else.
std::optional<DeepSpeedFiles> open_deepspeed(Env& env, const std::string& source, const std::string& tag);

}  // namespace weft::checkpoint::foreign
