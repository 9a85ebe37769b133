// Makes a step of a store out of what others saved: weights (weight_files.h), or a DeepSpeed checkpoint with its optimizer
// (foreign/deepspeed.h). Tensors pass through in pieces, so that memory does not grow with the model.
//
//   const ImportPlan plan = plan_import(Env::posix(), "global_step1200/..", {});
//   import_step(Env::posix(), "ckpt", plan, progress);             // committed when it returns
//
// The names and numbers are those an engine saves under (docs/formats/checkpoint.md), so that it loads the step as one of its own. What it
// came from is client state, kImportedFrom, for programs to see.
//
// Ownership: a plan keeps the source's files open. import_step takes the store's lock. Threads: one at a time. Failure: Error(kInput) for
// a source that cannot be understood, and for a step that the store has already; Error(kEnvironment) where the disk has no room; IoError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/checkpoint/manifest.h"

namespace weft::checkpoint {

// On-disk: never rename. "DeepSpeed 0.19.8, ZeRO stage 2, 4 ranks".
inline constexpr std::string_view kImportedFrom = "imported_from";

struct TensorToImport {
  std::string name = {};  // in the step
  StoredTensor tensor = {};
  // Elements [first, ...), as many as `into` takes.
  std::function<void(uint64_t first, std::span<std::byte> into)> read = {};
};

struct ImportPlan {
  std::string from = {};  // what the source is, in words
  int64_t step = 0;
  std::vector<TensorToImport> tensors = {};
  std::map<std::string, std::string> sections = {};
  std::vector<std::string> left_out = {};  // what the source has and the step will not, in words
};

struct ImportOptions {
  std::string tag = {};              // of a DeepSpeed checkpoint; "": the one that its `latest` names
  std::optional<int64_t> step = {};  // number of the step; none: the source's own, or 0
};

struct Imported {
  int64_t step = 0;
  uint64_t num_tensors = 0, bytes = 0;
};

// Reads headers and no weights.
ImportPlan plan_import(Env& env, const std::string& source, const ImportOptions& options);

Imported import_step(Env& env, const std::string& store, const ImportPlan& plan,
                     const std::function<void(uint64_t done_bytes, uint64_t total_bytes)>& progress);

}  // namespace weft::checkpoint
