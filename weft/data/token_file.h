// A file of tokens, mapped rather than read: opening terabytes costs nothing, and the ranks of a host share one copy in the
// page cache. The file is raw tokens in little-endian order, uint16 or uint32, without a header. See docs/data.md.
//
// Ownership: holds the descriptor and the mapping. Renaming or unlinking the file does no harm. Threads: read() from any.
// Failure: Error(kInput) on open for a path, size or type that cannot be; on read for a token outside the vocabulary.
//
// A file that shrinks while it is mapped: the kernel answers a touch past the new end with SIGBUS, which would end the
// process without a word. So every read looks at the size first and throws Error(kEnvironment) when it is less than at open.
// A shrink between that look and the copy, microseconds later, is still a SIGBUS. Bytes that are rewritten in place are seen
// as they are at the moment of reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/env.h"

namespace weft::data {

enum class TokenType { kU16, kU32 };

int64_t bytes_per_token(TokenType type);
// The type that a name tells: "x.u16", "x.u32"; nothing for any other.
std::optional<TokenType> token_type_of(std::string_view path);
// The path itself, or the files of a folder that end in .u16, .u32 or .bin, by name.
std::vector<std::string> token_paths(Env& env, const std::string& path);

// A file's bytes in the address space, to read.
class Mapping {
 public:
  Mapping() = default;
  // The first `bytes` of the file. Throws IoError.
  Mapping(const File& file, size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping(Mapping&& other) noexcept { swap(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    Mapping(std::move(other)).swap(*this);
    return *this;
  }

  const std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void swap(Mapping& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

class TokenFile {
 public:
  // `type` is needed where the name does not tell it, and refused where the name tells another.
  TokenFile(Env& env, const std::string& path, std::optional<TokenType> type = std::nullopt);

  int64_t size() const { return static_cast<int64_t>(mapping_.bytes()) / bytes_per_token(type_); }  // tokens
  TokenType type() const { return type_; }
  const std::string& path() const { return file_->path(); }

  // Tokens offset, offset + 1, ... Throws when one is not below `vocab`; 0 lets all pass.
  // Requires: 0 <= offset, offset + out.size() <= size().
  void read(int64_t offset, std::span<int64_t> out, int64_t vocab = 0) const;

 private:
  void check_not_shrunk() const;
  void check_below(int64_t vocab, std::span<const int64_t> tokens, int64_t offset) const;

  std::unique_ptr<File> file_;
  TokenType type_;
  Mapping mapping_;
};

}  // namespace weft::data
