// A file that grows by whole pieces, for what is written while a run goes on and must never stop it: rows, events.
//
//   AppendFile file(env.open(path, OpenMode::kCreate), 0);
//   if (!file.put("7,0.5\n")) ++num_left_out;
//
// What a failed write left behind is cut off before the next one, so that a reader meets whole pieces only (and, while a
// disk is full, at most one torn one at the end). Nothing is buffered: readers see a piece when put() returns.
//
// Threads: one owner. Failure: none; that a write failed is said once a run (write_trouble.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "weft/base/env.h"

namespace weft {

class AppendFile {
 public:
  // Goes on at `offset`; what the file has beyond it is the caller's to cut.
  AppendFile(std::unique_ptr<File> file, uint64_t offset) : file_(std::move(file)), offset_(offset) {}

  // False: it is not there, and pieces to come are tried again.
  bool put(std::string_view bytes);
  // The end of the last whole piece.
  uint64_t offset() const { return offset_; }

 private:
  std::unique_ptr<File> file_;
  uint64_t offset_;
  bool must_trim_ = false;  // a write that failed may have left bytes behind it
};

}  // namespace weft
