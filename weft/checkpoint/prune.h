// Which steps of a store may go, and their removal. Only committed steps are counted and only they go; the newest stays
// whatever the policy says, so that there is always one to go on from. Damaged and unfinished folders are left alone.
//
//   prune_store(env, "ckpt", {.keep_last = 3, .keep_every = 1000, .metric = "loss", .keep_best = 1});
//
// Ownership: the caller holds the StoreLock. Threads: one pruner; readers are safe before they have opened a step's files.
// Failure: Error, IoError; a step is there whole or gone, and the next call goes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/checkpoint/store.h"

namespace weft::checkpoint {

struct PrunePolicy {
  int keep_last = 1;        // the newest so many; at least 1
  int64_t keep_every = 0;   // and every step that this divides; 0: none
  std::string metric = {};  // and the best keep_best by this metric, equal ones from new to old; "": none
  int keep_best = 0;
  bool lower_is_better = true;
};

// The steps that the policy does not keep, given the committed ones in the order of list_steps.
std::vector<int64_t> steps_to_prune(const std::vector<Manifest>& committed, const PrunePolicy& policy);

// Returns the steps that went.
std::vector<int64_t> prune_store(Env& env, const std::string& store, const PrunePolicy& policy);

}  // namespace weft::checkpoint
