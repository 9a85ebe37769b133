// The lines of a file, one after the other, with memory for one line and one piece: traces and metrics grow with the run.
//
// Threads: one owner. Failure: IoError; Error(kInput) for a line above the limit, which no file of ours has.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "weft/base/env.h"

namespace weft {

struct FileLine {
  std::string text;      // without its line end
  int64_t number = 0;    // from 1
  uint64_t start = 0;    // where in the file it begins
  bool is_whole = true;  // false: the file stops before a line end, as after a crash in the middle of a write
};

class LineReader {
 public:
  LineReader(Env& env, const std::string& path);
  // Nothing at the end.
  std::optional<FileLine> next();

  static constexpr size_t kMaxLineBytes = 1 << 20;

 private:
  // False at the end of the file.
  bool read_more();

  std::unique_ptr<File> file_;
  std::string buffer_;
  size_t taken_ = 0;  // of buffer_
  uint64_t offset_ = 0;
  int64_t number_ = 0;
};

}  // namespace weft
