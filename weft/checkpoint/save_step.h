// Saves a step with ranks that meet only in the store's folder: each writes its file and leaves a note beside it that says so; rank
// 0 waits for the notes and commits. Nobody calls anybody, so that a save goes on in a thread of its own while the ranks train.
//
//   const SaveRequest request{.step = 12, .rank = rank, .world = 4, .id = id, .slices = ..., .head = ...};
//   save_step(env, "ckpt", request, [&](RankFileWriter& writer) { writer.append(bytes); });
//
// The id tells one attempt from another: what an earlier one left under the same step is not taken for this one's.
//
// Ownership: rank 0 holds the StoreLock. Threads: one save of a store at a time on each rank; all ranks have ended the one before
// when the first begins. Failure: Error, IoError. A rank that cannot write says so by a file without content, which a full
// disk takes too; rank 0 then throws without waiting. What was committed before is intact.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/prune.h"
#include "weft/checkpoint/store_writer.h"

namespace weft::checkpoint {

struct SaveRequest {
  int64_t step = 0;
  int rank = 0, world = 1;
  std::string id = {};  // letters and digits; the same on all ranks, another for every save
  std::vector<SliceToSave> slices = {};
  Manifest head = {};                    // rank 0 alone: sections, metrics, plan
  std::optional<PrunePolicy> keep = {};  // rank 0 alone, after the commit; none: all steps
  double others_deadline_s = 600;        // rank 0 alone: for the notes of the others, once its own file is written
  // Rank 0 alone: set where training has ended and others may never come; they have so long from then on. None: never.
  const std::atomic<bool>* hurry = {};
  double hurry_deadline_s = 5;
};

// This rank's file alone, durable and not yet counting.
Part write_rank_file(Env& env, const std::string& store, const SaveRequest& request,
                     const std::function<void(RankFileWriter& writer)>& fill);

// Returns when this rank's part is done: of rank 0 the commit, of others their file.
void save_step(Env& env, const std::string& store, const SaveRequest& request,
               const std::function<void(RankFileWriter& writer)>& fill);

// The step counts already: an old one that cannot be removed is said in the log, and no failure of the save.
void prune_after_commit(Env& env, const std::string& store, const PrunePolicy& policy);

}  // namespace weft::checkpoint
