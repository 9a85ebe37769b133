#include "weft/checkpoint/block_stream.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "weft/base/error.h"
#include "weft/checkpoint/blocks.h"

namespace weft::checkpoint {
namespace {

constexpr size_t kMaxAhead = 8;

}  // namespace

BlockStream::BlockStream(Env& env) : env_(env) {}

BlockStream::~BlockStream() { forget_what_comes(); }

std::span<const std::byte> BlockStream::block(File& file, const StoredFile& stored, uint64_t index) {
  const uint64_t size = stored.size_of_block(index);
  const bool is_same_file = file_ == &file && stored_ == &stored;
  if (is_same_file && current_ && current_->block == index) return {current_->bytes.get(), size};
  if (current_) free_.push_back(*std::exchange(current_, std::nullopt));
  if (!is_same_file || coming_.empty() || coming_.front().block != index) begin(file, stored, index);
  num_ahead_ = std::min(2 * num_ahead_, kMaxAhead);
  ask_ahead();
  Buffer buffer = std::move(coming_.front());
  coming_.pop_front();
  const size_t got = arrived(buffer);
  check_block(file, stored, index, {buffer.bytes.get(), std::min<uint64_t>(got, size)});
  bytes_read_ += size;
  current_ = std::move(buffer);
  return {current_->bytes.get(), size};
}

// One block only: whoever reads here and there is not made to read all that lies between.
void BlockStream::begin(File& file, const StoredFile& stored, uint64_t index) {
  forget_what_comes();
  if (buffer_bytes_ < stored.block_bytes) {
    free_.clear();
    buffer_bytes_ = stored.block_bytes;
  }
  if (file_ != &file && may_be_direct_ && stored.block_bytes % kDirectAlignment == 0) set_direct(file.fd(), true);
  file_ = &file;
  stored_ = &stored;
  next_ = index;
  num_ahead_ = 1;
  if (!io_) io_ = env_.async_io({.depth = kMaxAhead});
}

void BlockStream::ask_ahead() {
  while (coming_.size() < num_ahead_ && next_ < stored_->blocks.size()) {
    if (free_.empty()) free_.push_back({.bytes = aligned_bytes(buffer_bytes_)});
    Buffer buffer = std::move(free_.back());
    free_.pop_back();
    buffer.block = next_++;
    // The last block is asked for as if it were whole units; the file's end comes before theirs.
    const uint64_t size = rounded_up(stored_->size_of_block(buffer.block));
    buffer.ticket = io_->submit_read(*file_, buffer.block * stored_->block_bytes, {buffer.bytes.get(), size});
    coming_.push_back(std::move(buffer));
  }
}

size_t BlockStream::arrived(Buffer& buffer) {
  try {
    return io_->wait(buffer.ticket).value();
  } catch (const IoError& error) {
    if (!may_be_direct_ || error.code() != EINVAL) {
      forget_what_comes();
      throw;
    }
    may_be_direct_ = false;
    set_direct(file_->fd(), false);
    return file_->read_at(buffer.block * stored_->block_bytes,
                          {buffer.bytes.get(), stored_->size_of_block(buffer.block)});
  }
}

void BlockStream::forget_what_comes() {
  if (coming_.empty()) return;
  try {
    io_->wait_all();
  } catch (const IoError&) {  // NOLINT(bugprone-empty-catch): of a block that nobody wants any more
  }
  for (Buffer& buffer : coming_) free_.push_back(std::move(buffer));
  coming_.clear();
}

}  // namespace weft::checkpoint
