#include "weft/launcher/frames.h"

#include <algorithm>
#include <charconv>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::launcher {
namespace {

constexpr size_t kMaxHeaderBytes = 40, kMaxNoiseBytes = 4096;
constexpr std::string_view kKinds = "jskhoefdrb";

[[noreturn]] void refuse_header(std::string_view header) {
  throw Error(ErrorKind::kEnvironment, {.title = "what comes from the other host is no frame",
                                        .what = cat("'", header, "'"),
                                        .where = "",
                                        .fix = "something else writes to standard output there"});
}

// "o 3 17": a kind, a number, a size.
Frame header_of(std::string_view header, size_t& size) {
  const char* const end = header.data() + header.size();
  Frame frame;
  if (header.size() < 5 || header[1] != ' ' || kKinds.find(header[0]) == std::string_view::npos) refuse_header(header);
  frame.kind = static_cast<FrameKind>(header[0]);
  const auto number = std::from_chars(header.data() + 2, end, frame.number);
  if (number.ec != std::errc() || number.ptr == end || *number.ptr != ' ') refuse_header(header);
  const auto bytes = std::from_chars(number.ptr + 1, end, size);
  if (bytes.ec != std::errc() || bytes.ptr != end || size > FrameReader::kMaxFrameBytes) refuse_header(header);
  return frame;
}

}  // namespace

std::string stream_start() { return cat("<weft agent ", kProtocol, ">\n"); }

void append_frame(std::string& out, const Frame& frame) {
  out += cat(static_cast<char>(frame.kind), " ", frame.number, " ", frame.bytes.size(), "\n");
  out += frame.bytes;
}

void FrameReader::feed(std::string_view bytes, const std::function<void(const Frame&)>& on_frame) {
  begun_ += bytes;
  if (!started_ && !skip_noise()) return;
  size_t at = 0;
  while (const size_t taken = take_frame(at, on_frame)) at += taken;
  begun_.erase(0, at);
}

bool FrameReader::skip_noise() {
  const std::string start = stream_start();
  const size_t found = begun_.find(start);
  started_ = found != std::string::npos;
  // The end of what has come may be the beginning of the start.
  const size_t num_noise = started_ ? found : begun_.size() - std::min(begun_.size(), start.size());
  noise_ += begun_.substr(0, num_noise);
  noise_.erase(0, noise_.size() - std::min(noise_.size(), kMaxNoiseBytes));
  begun_.erase(0, started_ ? found + start.size() : num_noise);
  return started_;
}

size_t FrameReader::take_frame(size_t at, const std::function<void(const Frame&)>& on_frame) const {
  const std::string_view left = std::string_view(begun_).substr(at);
  const size_t line_end = left.substr(0, kMaxHeaderBytes).find('\n');
  if (line_end == std::string_view::npos && left.size() >= kMaxHeaderBytes)
    refuse_header(left.substr(0, kMaxHeaderBytes));
  if (line_end == std::string_view::npos) return 0;
  size_t size = 0;
  Frame frame = header_of(left.substr(0, line_end), size);
  if (left.size() < line_end + 1 + size) return 0;
  frame.bytes = left.substr(line_end + 1, size);
  on_frame(frame);
  return line_end + 1 + size;
}

}  // namespace weft::launcher
