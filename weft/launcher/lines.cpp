#include "weft/launcher/lines.h"

#include <algorithm>

#include "weft/base/utf8.h"

namespace weft::launcher {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// At most `limit`, and not inside a character.
size_t cut_before(std::string_view text, size_t limit) {
  size_t at = limit;
  while (at > limit - 4 && is_continuation(text[at])) --at;
  return at > limit - 4 ? at : limit;
}

// The length of "ESC [ digits and ; m" at the start, or 0.
size_t colour_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

bool is_printable(char c) { return (c >= ' ' && c <= '~') || c == '\t'; }

void add_hex(std::string& out, std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += "\\x";
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
}

}  // namespace

void LineCutter::add(std::string_view bytes, const OnLine& on_line) {
  begun_ += bytes;
  std::string_view rest = begun_;
  while (rest.size() > kMaxPieceBytes) {
    const size_t end = cut_before(rest, kMaxPieceBytes);
    on_line(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  begun_.erase(0, begun_.size() - rest.size());
}

void LineCutter::feed(std::string_view bytes, const OnLine& on_line) {
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    add(bytes.substr(0, end), on_line);
    if (end > 0) after_return_ = false;
    if (end == bytes.size()) return;
    end_line(bytes[end], on_line);
    bytes.remove_prefix(end + 1);
  }
}

void LineCutter::end_line(char ending, const OnLine& on_line) {
  const bool is_return = ending == '\r';
  // Nothing before a '\r' is a bar about to be drawn, and a '\n' after one is the rest of the same line end.
  if (!begun_.empty() || !(is_return || after_return_)) on_line(begun_);
  after_return_ = is_return && !(begun_.empty() && !after_return_);
  begun_.clear();
}

void LineCutter::finish(const OnLine& on_line) {
  if (!begun_.empty()) on_line(begun_);
  begun_.clear();
}

std::string safe_line(std::string_view line, bool colour) {
  // Nearly every line is: ten times faster than the walk below.
  if (std::ranges::all_of(line, is_printable)) return std::string(line);
  std::string out;
  out.reserve(line.size());
  while (!line.empty()) {
    if (const size_t length = colour_length(line); length > 0) {
      if (colour) out += line.substr(0, length);
      line.remove_prefix(length);
      continue;
    }
    const CodePoint point = take_code_point(line);
    const bool shown = point.valid && (point.value == '\t' || !is_control(point.value));
    if (shown) out += point.bytes;
    if (!shown) add_hex(out, point.bytes);
  }
  return out;
}

void LastLines::add(std::string_view line) {
  if (lines_.size() == kMaxLines) lines_.pop_front();
  lines_.emplace_back(line.substr(0, kMaxBytes));
}

}  // namespace weft::launcher
