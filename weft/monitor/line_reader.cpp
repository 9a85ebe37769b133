#include "weft/monitor/line_reader.h"

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft {
namespace {
constexpr size_t kReadBytes = 1 << 18;
}

LineReader::LineReader(Env& env, const std::string& path) : file_(env.open(path, OpenMode::kRead)) {}

bool LineReader::read_more() {
  buffer_.erase(0, taken_);
  taken_ = 0;
  const size_t had = buffer_.size();
  buffer_.resize(had + kReadBytes);
  const size_t got = file_->read_at(offset_, std::as_writable_bytes(std::span(buffer_).subspan(had)));
  buffer_.resize(had + got);
  offset_ += got;
  return got > 0;
}

std::optional<FileLine> LineReader::next() {
  size_t end = buffer_.find('\n', taken_);
  while (end == std::string::npos) {
    const size_t seen = buffer_.size() - taken_;
    if (seen > kMaxLineBytes) {
      throw Error(ErrorKind::kInput, {.title = "a line is too long",
                                      .what = cat("more than ", kMaxLineBytes, " bytes without a line end"),
                                      .where = cat(file_->path(), ":", number_ + 1),
                                      .fix = "give a file that weft wrote"});
    }
    if (!read_more()) break;
    end = buffer_.find('\n', seen);
  }
  const bool is_whole = end != std::string::npos;
  if (!is_whole && taken_ == buffer_.size()) return std::nullopt;
  FileLine line{.text = buffer_.substr(taken_, is_whole ? end - taken_ : std::string::npos),
                .number = ++number_,
                .start = offset_ - (buffer_.size() - taken_),
                .is_whole = is_whole};
  taken_ = is_whole ? end + 1 : buffer_.size();
  return line;
}

}  // namespace weft
