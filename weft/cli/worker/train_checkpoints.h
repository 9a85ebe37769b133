// The checkpoints of `weft train`: when a saved run is this run, which steps are kept, and what a save that fails means for the
// training.
//
//   TrainCheckpoints checkpoints(engine, {.folder = "state", .identity = ..., .machine = ..., .keep_last = 3});
//   checkpoints.open();
//   const auto loaded = checkpoints.restore();     // nothing: no step there yet
//   checkpoints.save(step, loss);                  // behind the steps that follow
//   checkpoints.save_and_wait(step, loss);         // at the end
//
// Threads: one; all ranks call all of it. Failure: restore() and save_and_wait() throw Error. A save() for which the disk has no room,
// or that could not be written, is said in the log, and training goes on; one that can never be (the store is another
// run's) is thrown.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "weft/engine/engine.h"

namespace weft::cli {

struct TrainCheckpointOptions {
  std::string folder;  // "": in memory alone
  // What must not differ between the run that saved and the run that resumes (seed, data, batch, ...), by flag; and what may, at the
  // price of other bits (device, threads): a difference is reported in the log.
  std::map<std::string, std::string> identity, machine;
  int64_t keep_last = 0;   // steps; 0: all
  int64_t keep_every = 0;  // with keep_last: and those that this divides
  int64_t keep_best = 0;   // with keep_last: and so many of the lowest loss
};

class TrainCheckpoints {
 public:
  TrainCheckpoints(Engine& engine, TrainCheckpointOptions options);

  // Refuses a store that cannot be had, before anything is trained.
  void open() { engine_.open_checkpoints(o_.folder); }
  // Loads the newest step that is whole, from memory where that has it, and says which.
  std::optional<LoadedCheckpoint> restore();
  void save(int64_t step, double loss);
  // In memory, where the config wants it and it is due.
  void keep_copy(double loss) { engine_.keep_copy(options_for(loss)); }
  // Does nothing for a step that is saved already, but wait for it.
  void save_and_wait(int64_t step, double loss);

  const std::string& folder() const { return o_.folder; }

 private:
  void check_origin(const LoadedCheckpoint& found) const;
  SaveOptions options_for(double loss) const;
  void begin(int64_t step, double loss);

  Engine& engine_;
  const TrainCheckpointOptions o_;
  std::optional<int64_t> last_step_;  // that was loaded from the folder, or whose save has begun
  bool has_told_waiting_ = false;
};

}  // namespace weft::cli
