// Token files as samples: windows of seq + 1 tokens, one every seq tokens, so that each token is a target once. The last
// token of a window is the first of the next. A window lies within one file: what is left at a file's end, fewer than
// seq + 1 tokens from the last window's start, is not used. Several files are one row of windows, in the order given.
//
// Threads: immutable, any thread may read. Failure: Error(kInput) when there is not one window; see token_file.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/data/token_file.h"

namespace weft::data {

struct TokenWindowOptions {
  int64_t seq = 1;
  std::optional<TokenType> type;  // of every file; by the name where absent
  int64_t vocab = 0;              // tokens are checked against it as they are read; 0: not checked
};

class TokenWindows {
 public:
  TokenWindows(Env& env, std::span<const std::string> paths, const TokenWindowOptions& options);

  int64_t size() const { return first_window_.back(); }  // windows
  int64_t seq() const { return options_.seq; }
  int64_t num_tokens() const;  // of all files, used or not

  // Requires: 0 <= window < size(), out.size() == seq() + 1.
  void read(int64_t window, std::span<int64_t> out) const;

 private:
  void check_not_empty() const;

  TokenWindowOptions options_;
  std::vector<TokenFile> files_;
  std::vector<int64_t> first_window_;  // of each file, and one more: the number of all windows
};

}  // namespace weft::data
