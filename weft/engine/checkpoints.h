// The engine's side of a store: copies a rank's share of the training, has it written behind the steps that follow, and finds and loads
// the newest step that is whole.
//
// One save at a time: the next one waits for it. Ranks meet at the beginning of a save (sizes, problems), in wait() and in load(); the
// writing itself meets in the folder (checkpoint/save_step.h), or where hosts have folders of their own in a group of its own
// (spread_store.h).
//
// Ownership: belongs to a Training and looks at it only inside save() and load(); owns a copy of its state on the host, and on
// the first rank of a folder its lock, once it is open. Threads: one at a time, and one of its own that writes. Failure: what stops a
// save from beginning is thrown, on all ranks; what goes wrong behind it is logged, counted and thrown by wait(). PeerLost.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <set>
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
#include "weft/engine/spread_store.h"

namespace weft::engine {

class Training;

struct StoreUse {
  bool is_spread = false;            // hosts have folders of their own
  Passing passing = Passing::kNone;  // with is_spread
  bool is_copy = false;              // in memory, for the next attempt of this run
};

class Checkpoints {
 public:
  Checkpoints(Training& training, Env& env, const StoreUse& use = {});
  // Waits for the save under way; where an error ended the training, others have a moment to come with their part.
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  // Nothing where it is open already.
  void open(const std::string& folder);
  SaveReport save(const std::string& folder, const SaveOptions& options);
  // Until the save under way has ended on all ranks; throws on all if it failed on one.
  void wait();
  // "": nothing. `copies`: steps in their folder that are as new or newer are tried first.
  struct Copies {
    Checkpoints* store = nullptr;
    std::string folder = {};
  };
  std::optional<LoadedCheckpoint> load(const std::string& folder, const LoadCheckpointOptions& options,
                                       const Copies& copies);
  // Until the save under way has ended on this rank; how long that took, in seconds.
  double finish_previous();
  // The other ranks may not come any more.
  void hurry() { hurry_ = true; }

  const CheckpointTotals& totals() const { return totals_; }

 private:
  struct Start;
  struct Attempt;

  void share_problem(const std::optional<Error>& problem);
  std::optional<Error> lock_problem(const std::string& folder);
  std::optional<Error> sharing_problem(const std::string& folder);
  void look_at(const std::string& folder);
  bool leads() const;
  std::optional<Error> room_problem(const std::string& folder, const std::vector<Start>& all, uint64_t spare) const;
  Start prepare(const std::string& folder);
  void add_gradients();
  std::vector<Start> meet(const Start& mine, const std::optional<Error>& problem);
  void add_buffers(const std::vector<Start>& all);
  checkpoint::Manifest head_of(const SaveOptions& options) const;
  void begin_writing(const std::string& folder, checkpoint::SaveRequest request);

  std::vector<checkpoint::StepPlace> places_in(const std::string& folder);
  std::vector<checkpoint::StepPlace> spread_places();
  void check_fits(const checkpoint::Manifest& manifest, const std::string& folder);
  Attempt try_to_load(const checkpoint::StepPlace& place, const LoadCheckpointOptions& options);
  Attempt bring_and_load(checkpoint::StepPlace place, const LoadCheckpointOptions& options);
  bool reads(const checkpoint::Manifest& manifest, const std::string& name) const;
  std::set<std::string> files_needed(const checkpoint::Manifest& manifest);
  void read_all(checkpoint::StepReader& reader);
  bool all_loaded(const Attempt& mine, std::optional<LoadedCheckpoint>& loaded, std::vector<std::string>& passed_over);

  Training& training_;
  Env& env_;
  const StoreUse use_;
  std::optional<checkpoint::StoreLock> lock_;
  std::optional<SpreadStore> spread_;    // where ranks do not all see one folder
  std::string spread_folder_;            // that they were asked about
  std::shared_ptr<comm::Group> behind_;  // of the thread that writes, where it is spread
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
