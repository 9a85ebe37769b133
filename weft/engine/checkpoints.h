// The engine's side of a store: copies a rank's share of the training, has it written behind the steps that follow, and finds and loads
// the newest step that is whole.
//
// One save at a time: the next one waits for it. Ranks meet at the beginning of a save (sizes, problems), in wait() and in load(); the
// writing itself meets in the folder (checkpoint/save_step.h).
//
// Ownership: belongs to a Training and looks at it only inside save() and load(); owns a copy of its state on the host, and on
// rank 0 the store's lock, once it is open. Threads: one at a time, and one of its own that writes. Failure: what stops a
// save from beginning is thrown, on all ranks; what goes wrong behind it is logged, counted and thrown by wait(). PeerLost.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/checkpoint/live_slices.h"
#include "weft/checkpoint/save_step.h"
#include "weft/checkpoint/store.h"
#include "weft/checkpoint/store_lock.h"
#include "weft/engine/checkpointing.h"

namespace weft::engine {

class Training;

class Checkpoints {
 public:
  Checkpoints(Training& training, Env& env);
  // Waits for the save under way; where an error ended the training, others have a moment to come with their part.
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  // Nothing where it is open already.
  void open(const std::string& folder);
  SaveReport save(const std::string& folder, const SaveOptions& options);
  // Until the save under way has ended on all ranks; throws on all if it failed on one.
  void wait();
  std::optional<LoadedCheckpoint> load(const std::string& folder, const LoadCheckpointOptions& options);
  // The other ranks may not come any more.
  void hurry() { hurry_ = true; }

  const CheckpointTotals& totals() const { return totals_; }

 private:
  struct Start;
  struct Attempt;

  void share_problem(const std::optional<Error>& problem);
  std::optional<Error> lock_problem(const std::string& folder);
  std::optional<Error> sharing_problem(const std::string& folder);
  double finish_previous();
  Start prepare(const std::string& folder);
  void add_gradients();
  std::vector<Start> meet(const Start& mine, const std::optional<Error>& problem);
  void add_buffers(const std::vector<Start>& all);
  checkpoint::Manifest head_of(const SaveOptions& options) const;
  void begin_writing(const std::string& folder, checkpoint::SaveRequest request);

  std::vector<checkpoint::StepPlace> places_in(const std::string& folder);
  void check_fits(const checkpoint::Manifest& manifest, const std::string& folder);
  Attempt try_to_load(const checkpoint::StepPlace& place, const LoadCheckpointOptions& options);
  void read_all(checkpoint::StepReader& reader);
  bool all_loaded(const Attempt& mine, std::optional<LoadedCheckpoint>& loaded, std::vector<std::string>& passed_over);

  Training& training_;
  Env& env_;
  std::optional<checkpoint::StoreLock> lock_;
  std::string open_folder_;
  std::vector<checkpoint::LiveSlice> slices_;  // while a save begins
  checkpoint::HostCopy copy_;
  std::atomic<bool> hurry_ = false;
  CheckpointTotals totals_;

  // Of the thread that writes, until it has been joined.
  std::optional<Error> problem_;
  double wrote_s_ = 0;
  std::thread writer_;  // last: it ends before the rest goes
};

}  // namespace weft::engine
