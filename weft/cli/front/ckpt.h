// What the parts of `weft ckpt` share: which step was meant, and a bar while bytes pass.
//
// Failure: Error(kInput) for a folder that is no store and a step that is not there.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/checkpoint/store.h"
#include "weft/cli/front/command.h"

namespace weft::cli {

// `path` is a store, or the folder of one of its steps; without a step the one that would be loaded first.
checkpoint::StepPlace step_at(const std::string& path, std::optional<int64_t> step);
// All steps of a store, the one that would be loaded first in front.
std::vector<checkpoint::StepPlace> steps_of(const std::string& store);

// For verify, export and import: draws on standard error.
using ByteProgress = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;
class ByteBar {
 public:
  explicit ByteBar(std::string title);
  ~ByteBar();
  ByteBar(const ByteBar&) = delete;
  ByteBar& operator=(const ByteBar&) = delete;
  ByteProgress progress();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

int ckpt_ls(const Arguments& arguments);
int ckpt_show(const Arguments& arguments);
int ckpt_verify(const Arguments& arguments);
int ckpt_diff(const Arguments& arguments);
int ckpt_prune(const Arguments& arguments);
int ckpt_export(const Arguments& arguments);
int ckpt_import(const Arguments& arguments);

}  // namespace weft::cli
