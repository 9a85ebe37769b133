// Saving and loading a model in training: what to say, and what comes back.
//
//   engine.save_checkpoint("ckpt", {.client_state = {{"epoch", "3"}}, .data = loader.state(), .keep = {{.keep_last = 3}}});
//   ...
//   if (const auto loaded = engine.load_checkpoint("ckpt")) { resume = loaded->data; }
//
// A store (docs/formats/checkpoint.md) holds one folder a step. Whatever ranks, stage, buckets and precision saved it, any others can
// load it. Values; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/checkpoint/prune.h"
#include "weft/data/shard.h"

namespace weft {

using ClientState = std::map<std::string, std::string>;

struct SaveOptions {
  std::string tag = {};                         // a word that load_checkpoint() can ask for; folders are named by step
  ClientState client_state = {};                // what else the program must remember: any bytes, those of rank 0
  std::map<std::string, double> metrics = {};   // to choose the best step by, those of rank 0
  std::optional<data::SamplerState> data = {};  // loader.state()
  std::optional<checkpoint::PrunePolicy> keep = {};  // which older steps stay; absent: all
  // Whether the files are written behind the training that follows; false: the step is committed when the call returns.
  bool in_background = true;
  uint64_t spare_bytes = 0;  // that must stay free on the disk; a save for which there is no room is refused
};

struct SaveReport {
  int64_t step = 0;
  uint64_t bytes = 0;    // of all ranks
  double stopped_s = 0;  // what the call took
  double waited_s = 0;   // and of that, for the save before, which was still under way
};

struct CheckpointTotals {
  int64_t num_saves = 0, num_failed = 0;  // that have ended, on this rank
  uint64_t bytes = 0;                     // of all ranks
  double stopped_s = 0, longest_stop_s = 0, waited_s = 0;
  double write_s = 0;  // from the end of the stop to the commit; of other ranks than 0 to their file
  double load_s = 0;   // of the last load
  // Of keep_copy(): those that have ended, bytes of all ranks and all copies, and what the calls took.
  int64_t num_copies = 0;
  uint64_t copy_bytes = 0;
  double copy_stopped_s = 0;
};

struct LoadedCheckpoint {
  int64_t step = 0;
  int saved_world = 1;
  std::string folder = {}, tag = {};
  bool is_copy = false;  // it came from memory; no file of the store was read
  ClientState client_state = {};
  std::optional<data::SamplerState> data = {};
  // Micro-steps of the step under way whose gradients it holds; the next backward() is the one after them. And of a step that could not be
  // gone on with: `data` is where that step began.
  int64_t micro_steps_done = 0, micro_steps_dropped = 0;
  std::vector<std::string> passed_over = {};  // newer steps that were damaged: what was wrong with each
};

struct LoadCheckpointOptions {
  std::string tag = {};  // only a step that was saved with it; "": any
  // Looks at a step before anything of it is loaded, on all ranks alike; refuses it by throwing an Error.
  std::function<void(const LoadedCheckpoint& found)> accept = {};
};

}  // namespace weft
