// A corpus is text held in memory as bytes; a byte is a token, so the vocabulary is 256 and nothing has to be trained first.
// Read once at start; immutable afterwards, so any thread may read it. Failure: Error(kInput) naming the path.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/base/env.h"

namespace weft::data {

class Corpus {
 public:
  static constexpr int64_t kVocab = 256;

  Corpus(std::string name, std::vector<uint8_t> bytes, int64_t num_files);

  std::span<const uint8_t> tokens() const { return bytes_; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  int64_t num_files() const { return num_files_; }
  const std::string& name() const { return name_; }

  // Entropy of the byte frequencies, in nats per token: the loss of the best model that ignores all context.
  double unigram_entropy() const;

 private:
  std::string name_;
  std::vector<uint8_t> bytes_;
  int64_t num_files_;
};

// One file as it stands, or every text file below a folder in path order, joined. Hidden files, links, and files with a NUL in
// their first 8 KiB are passed over in a folder. Throws on a missing, unreadable or empty path, and above `limit_bytes`.
Corpus read_corpus(Env& env, const std::string& path, uint64_t limit_bytes = uint64_t{8} << 30);

// The sources of the Python standard library, which every machine that can install torch has. Looks in `folder` when
// given, else asks python3 on PATH, else under /usr/lib and /usr/local/lib. Tests and installed packages are left out.
Corpus read_python_corpus(Env& env, const std::optional<std::string>& folder = std::nullopt);

}  // namespace weft::data
