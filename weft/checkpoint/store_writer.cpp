#include "weft/checkpoint/store_writer.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/direct_io.h"
#include "weft/checkpoint/manifest_impl.h"
#include "weft/checkpoint/store_names.h"

namespace weft::checkpoint {
namespace {

constexpr uint64_t kDiskPieceBytes = 8 << 20;

// The tensors and, with offsets counted from the first of them, the slices.
Part part_of(const std::vector<SliceToSave>& slices, std::string name, const WriterOptions& options) {
  Part part{.tensors = {}, .file = {.name = std::move(name), .block_bytes = options.block_bytes}};
  for (const auto& slice : slices) {
    const auto width = dtype_bytes(slice.dtype);
    if (!width || !is_plain_name(slice.tensor) || slice.begin > slice.end)
      refuse_manifest(
          cat("a slice of dtype '", slice.dtype, "', elements ", slice.begin, " to ", slice.end, ", cannot be saved"),
          part.file.name);
    part.tensors.try_emplace(slice.tensor, StoredTensor{.dtype = slice.dtype, .shape = slice.shape});
    if (slice.begin == slice.end) continue;
    const uint64_t offset = part.file.bytes;
    part.file.slices.push_back({.tensor = slice.tensor, .begin = slice.begin, .end = slice.end, .offset = offset});
    part.file.bytes += (slice.end - slice.begin) * *width;
  }
  return part;
}

void check_keys(const SafetensorsHeader& header, const std::string& path) {
  std::set<std::string_view> keys;
  for (const auto& entry : header.tensors) {
    if (!keys.insert(entry.name).second) refuse_manifest(cat("'", entry.name, "' is to be saved twice"), path);
  }
}

// Room for all of it in one piece. No failure: where that is not to be had, the writes say so.
void reserve(int fd, uint64_t bytes) {
  if (bytes > 0) static_cast<void>(::fallocate(fd, 0, 0, static_cast<off_t>(bytes)));
}

}  // namespace

RankFileWriter::RankFileWriter(Env& env, const std::string& store, int64_t step, int rank,
                               const std::vector<SliceToSave>& slices, const WriterOptions& options)
    : env_(env),
      folder_(cat(store, "/", step_name(step), kTempSuffix)),
      part_(part_of(slices, rank_file_name(rank, options.part), options)) {
  const std::string path = cat(folder_, "/", part_.file.name);
  const auto header = header_of(part_.file, part_.tensors);
  check_keys(header, path);
  make_folders_durably(env, store);
  env.make_folders(folder_);
  file_ = create_stored(env, path);
  const std::string text = render_header(header);
  for (auto& slice : part_.file.slices) slice.offset += text.size();
  part_.file.bytes += text.size();
  if (file_->fd() >= 0) {
    reserve(file_->fd(), part_.file.bytes);
    is_direct_ = part_.file.block_bytes % kDirectAlignment == 0 && set_direct(file_->fd(), true);
  }
  for (int i = 0; i < options.num_buffers; ++i) buffers_.push_back({.bytes = aligned_bytes(part_.file.block_bytes)});
  io_ = env.async_io({.depth = options.num_buffers});
  append(bytes_of(text));
}

void RankFileWriter::append(std::span<const std::byte> bytes) {
  WEFT_CHECK_LE(bytes.size(), part_.file.bytes - appended_bytes_);
  appended_bytes_ += bytes.size();
  while (!bytes.empty()) {
    Buffer& filling = buffers_[at_];
    const size_t take = std::min<uint64_t>(bytes.size(), part_.file.block_bytes - filling.used);
    std::memcpy(filling.bytes.get() + filling.used, bytes.data(), take);
    filling.used += take;
    bytes = bytes.subspan(take);
    if (filling.used == part_.file.block_bytes) send_block();
  }
}

void RankFileWriter::send_block() {
  Buffer& full = buffers_[at_];
  // The last block ends where the file does, which a direct write cannot.
  if (full.used % kDirectAlignment != 0) use_page_cache();
  full.offset = part_.file.blocks.size() * part_.file.block_bytes;
  full.is_direct = is_direct_;
  part_.file.blocks.push_back(hash128(full.content()));
  full.ticket = io_->submit_write(*file_, full.offset, full.content());
  at_ = (at_ + 1) % buffers_.size();
  wait_for(buffers_[at_]);
  start_disk();
}

// Leaves the buffer empty.
void RankFileWriter::wait_for(Buffer& buffer) {
  if (!buffer.ticket) return;
  try {
    io_->wait(*std::exchange(buffer.ticket, std::nullopt));
  } catch (const IoError& error) {
    // Some file systems take the flag and refuse the write.
    if (!buffer.is_direct || error.code() != EINVAL) {
      drop_others();
      throw;
    }
    use_page_cache();
    file_->write_at(buffer.offset, buffer.content());
  }
  written_bytes_ += buffer.used;
  buffer.used = 0;
}

// One failure is told; that the blocks behind it failed too is no news.
void RankFileWriter::drop_others() {
  try {
    io_->wait_all();
  } catch (const IoError&) {  // NOLINT(bugprone-empty-catch): the first failure is the one to tell
  }
}

// Blocks on their way end in one way or the other: each has pages of its own.
void RankFileWriter::use_page_cache() {
  if (std::exchange(is_direct_, false)) set_direct(file_->fd(), false);
}

// Through the page cache: left alone, the operating system keeps it all in memory until finish() asks for it, and the disk has
// nothing to do meanwhile: four times as long for a gigabyte.
void RankFileWriter::start_disk() {
  if (is_direct_ || written_bytes_ - started_bytes_ < kDiskPieceBytes) return;
  // No promise and no failure: what it could not begin with, sync() does or reports.
  if (file_->fd() >= 0)
    ::sync_file_range(file_->fd(), static_cast<off_t>(started_bytes_),
                      static_cast<off_t>(written_bytes_ - started_bytes_), SYNC_FILE_RANGE_WRITE);
  started_bytes_ = written_bytes_;
}

Part RankFileWriter::finish() {
  WEFT_CHECK_EQ(appended_bytes_, part_.file.bytes);
  if (buffers_[at_].used > 0) send_block();
  for (Buffer& buffer : buffers_) wait_for(buffer);
  file_->sync();
  // Here as well as at the commit: on a network file system a host syncs the names it made itself.
  env_.sync_folder(folder_);
  return std::move(part_);
}

}  // namespace weft::checkpoint
