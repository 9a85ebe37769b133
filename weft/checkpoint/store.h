// Finds steps in a store: which are committed, which one to go on from, and what is wrong with those that cannot be used.
//
//   const auto found = find_newest(env, "ckpt", Check::kManifest);
//   if (found) StepReader reader(env, found->folder, found->manifest);
//
// A step is committed when its folder has its final name and a manifest that verifies; the rest of a store is somebody's
// unfinished work and is passed over. Reading needs no lock: what is committed does not change, and pruning takes a
// step's name away before its files.
//
// Threads: free functions over an Env. Failure: Error(kInput) that says what is damaged, IoError.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/checkpoint/manifest.h"

namespace weft::checkpoint {

struct StepPlace {
  int64_t step = 0;
  std::string folder = {};  // with the store's path in front
  bool operator==(const StepPlace&) const = default;
};

struct FoundStep {
  int64_t step = 0;
  std::string folder;
  Manifest manifest;
  std::vector<Error> passed_over;  // the damage of newer steps, in the order they were tried
};

enum class Check {
  kManifest,    // the manifest, and that every file is there with its size; blocks are checked as they are read
  kEveryBlock,  // all of it: reads the whole step
};

// Folders with the name of a step, in the order in which to try them: the one `latest` names, the steps before it from new
// to old, then those after it, which a run that went back has left behind. Without a good `latest`: from new to old. The
// earlier save of a step that was being replaced comes right after the step, or in its place.
std::vector<StepPlace> list_steps(Env& env, const std::string& store);

// The manifest of one step's folder, its files checked for presence and size; those on other hosts' disks may be absent.
Manifest open_step(Env& env, const StepPlace& place);

// The first of list_steps that passes. Nothing when there are no steps; an Error when there are and none passes, because
// starting anew would bury them.
std::optional<FoundStep> find_newest(Env& env, const std::string& store, Check check);

// The text of `latest`, and the step it names; nothing when it is missing, an Error when it is damaged.
std::string render_latest(int64_t step);
std::optional<int64_t> read_latest(Env& env, const std::string& store);

}  // namespace weft::checkpoint
