#include "weft/checkpoint/store_writer.h"

#include <fcntl.h>

#include <algorithm>
#include <set>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
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
  buffers_.resize(static_cast<size_t>(options.num_buffers));
  io_ = env.async_io({.depth = options.num_buffers});
  const std::string text = render_header(header);
  for (auto& slice : part_.file.slices) slice.offset += text.size();
  part_.file.bytes += text.size();
  append(bytes_of(text));
}

void RankFileWriter::append(std::span<const std::byte> bytes) {
  WEFT_CHECK_LE(bytes.size(), part_.file.bytes - appended_bytes_);
  appended_bytes_ += bytes.size();
  while (!bytes.empty()) {
    auto& filling = buffers_[at_].bytes;
    const size_t take = std::min<uint64_t>(bytes.size(), part_.file.block_bytes - filling.size());
    filling.insert(filling.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(take));
    bytes = bytes.subspan(take);
    if (filling.size() == part_.file.block_bytes) send_block();
  }
}

void RankFileWriter::send_block() {
  Buffer& full = buffers_[at_];
  const uint64_t offset = part_.file.blocks.size() * part_.file.block_bytes;
  part_.file.blocks.push_back(hash128(full.bytes));
  full.ticket = io_->submit_write(*file_, offset, full.bytes);
  at_ = (at_ + 1) % buffers_.size();
  Buffer& next = buffers_[at_];
  if (next.ticket) {
    io_->wait(*std::exchange(next.ticket, std::nullopt));
    written_bytes_ += next.bytes.size();
    start_disk();
  }
  next.bytes.clear();
}

// Left alone, the operating system keeps it all in memory until finish() asks for it, and the disk has nothing to do meanwhile: four
// times as long for a gigabyte.
void RankFileWriter::start_disk() {
  if (written_bytes_ - started_bytes_ < kDiskPieceBytes) return;
  // No promise and no failure: what it could not begin with, sync() does or reports.
  if (file_->fd() >= 0)
    ::sync_file_range(file_->fd(), static_cast<off_t>(started_bytes_),
                      static_cast<off_t>(written_bytes_ - started_bytes_), SYNC_FILE_RANGE_WRITE);
  started_bytes_ = written_bytes_;
}

Part RankFileWriter::finish() {
  WEFT_CHECK_EQ(appended_bytes_, part_.file.bytes);
  if (!buffers_[at_].bytes.empty()) send_block();
  io_->wait_all();
  file_->sync();
  // Here as well as at the commit: on a network file system a host syncs the names it made itself.
  env_.sync_folder(folder_);
  return std::move(part_);
}

}  // namespace weft::checkpoint
