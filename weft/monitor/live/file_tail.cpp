#include "weft/monitor/live/file_tail.h"

#include <algorithm>
#include <cerrno>

#include "weft/base/error.h"
#include "weft/monitor/file_time.h"

namespace weft {
namespace {

// Enough to hold the end of a row with its step, loss and clock: two runs do not agree in all of that.
constexpr size_t kAnchorBytes = 128;

std::string read_piece(File& file, uint64_t offset, size_t bytes) {
  std::string piece(bytes, '\0');
  piece.resize(file.read_at(offset, std::as_writable_bytes(std::span(piece))));
  return piece;
}

}  // namespace

FileTail::FileTail(Env& env, std::string path, uint64_t start_bytes_before_end)
    : env_(env), path_(std::move(path)), start_bytes_before_end_(start_bytes_before_end) {}

void FileTail::forget() {
  offset_ = 0;
  anchor_.clear();
  skip_line_ = false;
}

TailLines FileTail::read(size_t max_bytes) {
  trouble_.clear();
  try {
    const auto file = env_.open(path_, OpenMode::kRead);
    exists_ = true;
    return read_from(*file, max_bytes);
  } catch (const IoError& error) {
    exists_ = error.code() != ENOENT && error.code() != ENOTDIR;
    if (exists_) trouble_ = error.text().what.empty() ? error.text().title : error.text().what;
  }
  TailLines out{.restarted = offset_ > 0 && !exists_};
  if (out.restarted) forget();
  return out;
}

bool FileTail::still_ours(File& file, uint64_t size) const {
  if (size < offset_) return false;
  return read_piece(file, offset_ - anchor_.size(), anchor_.size()) == anchor_;
}

TailLines FileTail::read_from(File& file, size_t max_bytes) {
  TailLines out;
  const uint64_t size = file.size();
  modified_unix_s_ = weft::modified_unix_s(file);
  if (!still_ours(file, size)) {
    out.restarted = true;
    forget();
  }
  if (offset_ == 0 && start_bytes_before_end_ > 0 && size > start_bytes_before_end_) {
    offset_ = size - start_bytes_before_end_;
    skip_line_ = true;
  }
  const std::string piece =
      read_piece(file, offset_, static_cast<size_t>(std::min<uint64_t>(max_bytes, size - offset_)));
  take_lines(piece, max_bytes, out);
  if (offset_ > 0) {
    const auto anchor_bytes = static_cast<size_t>(std::min<uint64_t>(kAnchorBytes, offset_));
    anchor_ = read_piece(file, offset_ - anchor_bytes, anchor_bytes);
  }
  out.more = piece.size() == max_bytes && offset_ < size;
  return out;
}

void FileTail::take_lines(std::string_view piece, size_t max_bytes, TailLines& out) {
  size_t taken = 0;
  for (size_t end = 0; (end = piece.find('\n', taken)) != std::string_view::npos; taken = end + 1) {
    if (!skip_line_) out.lines.emplace_back(piece.substr(taken, end - taken));
    skip_line_ = false;
  }
  constexpr size_t kLongestLine = 1 << 20;
  const bool no_end_in_sight = piece.size() - taken > kLongestLine || (taken == 0 && piece.size() == max_bytes);
  if (skip_line_ || no_end_in_sight) {  // nothing of ours: left out, rather than read again and again
    taken = piece.size();
    skip_line_ = true;
  }
  offset_ += taken;
}

}  // namespace weft
