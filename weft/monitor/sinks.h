// Where the numbers of a run go beside its own folder: what the sections tensorboard, csv_monitor and wandb of a config ask for.
//
//   MonitorSinks sinks(Env::posix(), config, {.run_folder = "runs/x", .resumed = true});      // rank 0 makes one
//   sinks.add({.step = step, .samples = samples, .loss = loss});
//
// Folders and names are DeepSpeed's: <output_path>/<job_name>, from the working folder where output_path is empty. wandb has
// no library for C++: the run keeps its project, group and team in wandb.json, and tools/wandb_offline.py makes an offline
// run of the folder afterwards.
//
// Nothing is buffered, so there is nothing to flush. Threads: one owner. Failure: none: a sink that cannot be had, or that
// takes no more, costs a warning and its rows.
#pragma once

#include <optional>
#include <string>

#include "weft/base/env.h"
#include "weft/config/resolved.h"
#include "weft/monitor/csv_scalars.h"
#include "weft/monitor/event_file.h"
#include "weft/monitor/metrics_file.h"

namespace weft {

struct SinkOptions {
  std::string run_folder;
  bool resumed = false;  // goes on with an earlier run: its points from here on are made again
};

class MonitorSinks {
 public:
  MonitorSinks(Env& env, const config::Resolved& config, const SinkOptions& options);

  void add(const StepMetrics& metrics);

 private:
  std::optional<EventFile> events_;
  std::optional<CsvScalars> csv_;
};

}  // namespace weft
