// Token files as a dataset for the loader: each sample is a window of a file (token_windows.h), a batch of them two int64
// tensors of rows x seq, where target[i] is the token after data[i].
//
// Threads: immutable, any thread may read. Failure: as token_windows.h, with the sample's index where one is at fault.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "weft/base/env.h"
#include "weft/data/dataset.h"
#include "weft/data/token_windows.h"

namespace weft::data {

class TokenDataset {
 public:
  TokenDataset(Env& env, std::span<const std::string> paths, const TokenWindowOptions& options)
      : windows_(env, paths, options) {}

  int64_t size() const { return windows_.size(); }
  const TokenWindows& windows() const { return windows_; }
  // {data, target}
  Tensors get_batch(std::span<const int64_t> indices) const;

 private:
  TokenWindows windows_;
};

}  // namespace weft::data
