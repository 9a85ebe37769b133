// Follows a text file that somebody else writes: each read() gives the whole lines that have come since the last one.
//
// The file may not be there yet, may end in the middle of a line, may be cut and written on (a resumed run does that to
// its metrics), or be replaced. Whoever holds what came before is told to forget it (`restarted`), and gets the file
// from its start again. A cut that has been written over since is noticed too: the bytes before our place are compared.
//
// Threads: one owner. Failure: a file that cannot be read counts as absent; `trouble` says why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/env.h"

namespace weft {

struct TailLines {
  std::vector<std::string> lines;
  bool restarted = false;  // what came before no longer stands in the file
  bool more = false;       // max_bytes were read and there are more: call again soon
};

class FileTail {
 public:
  // With start_bytes_before_end above 0 the first read begins near the end, at a line: for logs.
  FileTail(Env& env, std::string path, uint64_t start_bytes_before_end = 0);

  TailLines read(size_t max_bytes);

  const std::string& trouble() const { return trouble_; }  // empty: the file was read, or is not there
  bool exists() const { return exists_; }
  // When the file was last written, seconds since 1970; 0 when unknown.
  double modified_unix_s() const { return modified_unix_s_; }

 private:
  TailLines read_from(File& file, size_t max_bytes);
  bool still_ours(File& file, uint64_t size) const;
  void take_lines(std::string_view piece, size_t max_bytes, TailLines& out);
  void forget();

  Env& env_;
  const std::string path_;
  const uint64_t start_bytes_before_end_;
  uint64_t offset_ = 0;     // behind the last whole line
  std::string anchor_;      // the last bytes before offset_
  bool skip_line_ = false;  // the line at offset_ is to be dropped: we came into its middle, or it is too long
  bool exists_ = false;
  double modified_unix_s_ = 0;
  std::string trouble_;
};

}  // namespace weft
