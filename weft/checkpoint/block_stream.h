// The blocks of a store's files, checked, and read ahead where they are asked for one after the other: the disk works while a block
// is hashed and handed out.
//
//   BlockStream stream(env);
//   const auto bytes = stream.block(file, stored, 7);   // of block 8 the reading has begun
//
// Ownership: the files and what is stored of them must outlive it. Threads: one. Failure: as read_block; IoError.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weft/base/aio.h"
#include "weft/base/env.h"
#include "weft/checkpoint/direct_io.h"
#include "weft/checkpoint/manifest.h"

namespace weft::checkpoint {

class BlockStream {
 public:
  explicit BlockStream(Env& env);
  ~BlockStream();
  BlockStream(const BlockStream&) = delete;
  BlockStream& operator=(const BlockStream&) = delete;

  // Good until the next call.
  std::span<const std::byte> block(File& file, const StoredFile& stored, uint64_t index);
  // Of the blocks handed out.
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  struct Buffer {
    AlignedBytes bytes;
    uint64_t block = 0;
    AsyncIo::Ticket ticket = {};
  };

  void begin(File& file, const StoredFile& stored, uint64_t index);
  void ask_ahead();
  void forget_what_comes();
  size_t arrived(Buffer& buffer);

  Env& env_;
  File* file_ = nullptr;
  const StoredFile* stored_ = nullptr;
  bool may_be_direct_ = true;
  uint64_t next_ = 0;     // the first block that nobody has asked the disk for
  size_t num_ahead_ = 1;  // grows as long as blocks are asked for in their order
  uint64_t buffer_bytes_ = 0;
  std::vector<Buffer> free_;
  std::deque<Buffer> coming_;      // in the order of their blocks
  std::optional<Buffer> current_;  // the one handed out
  uint64_t bytes_read_ = 0;
  std::unique_ptr<AsyncIo> io_;  // last: its operations end before buffers go
};

}  // namespace weft::checkpoint
