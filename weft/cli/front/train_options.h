// What `weft train` was asked to do: the flags, checked. Torch-free: the front binary parses them to refuse a mistake in
// milliseconds, and the worker parses the same words again.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::cli {

struct TrainOptions {
  // The model.
  int64_t dim = 128;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t vocab = 256;
  int64_t seq = 128;  // tokens
  bool tied = false;

  // The work.
  int64_t ranks = 1;
  int64_t micro_batch = 16;              // sequences
  int64_t accumulation = 1;              // micro-steps in a step
  int64_t steps = 0;                     // counts only when duration is 0
  std::chrono::nanoseconds duration{0};  // 0: by steps
  double lr = 1e-3;
  int64_t warmup_steps = 20;
  int64_t seed = 0;
  std::string data = "corpus";  // random, corpus, or a path

  // Where it runs.
  std::string device = "cpu";
  int64_t threads = 0;  // 0: as many as cores

  // What it reads and leaves behind.
  std::string config_path;                    // a ds_config.json; its values come before those of the flags
  std::string init_path;                      // weights to start from
  std::string export_path;                    // safetensors of the final weights
  uint64_t export_max_bytes = 5'000'000'000;  // in one file, where that is a folder
  std::string save_folder;
  bool save_local = false;  // it is a folder of each host's own
  int64_t save_every = 0;   // steps; 0: only at the end
  int64_t keep_last = 0;    // saved steps; 0: all
  int64_t keep_every = 0;   // and those that this divides
  int64_t keep_best = 0;    // and so many with the lowest loss
  bool resume = false;
  int64_t restarts = 0;  // after failures, from the newest save
  std::string runs_folder = "runs";
  std::string name;                              // of the run; empty: from the clock
  std::string json_path;                         // "-": standard output
  bool trace = false;                            // a timeline in the run folder
  bool no_metrics = false;                       // nothing is measured or written while it runs
  int64_t trace_from = 1, trace_to = INT64_MAX;  // the steps in it
};

// Nothing when help was asked for and printed. Throws Error(kInput).
std::optional<TrainOptions> parse_train_options(const std::vector<std::string>& arguments);

}  // namespace weft::cli
