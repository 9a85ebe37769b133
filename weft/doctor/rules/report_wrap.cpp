#include <algorithm>

#include "weft/base/text.h"
#include "weft/base/utf8.h"
#include "weft/doctor/rules/report_impl.h"

namespace weft::doctor {
namespace {

// What stays on one line: a word, or one wide character with the punctuation that closes it.
struct Piece {
  std::string text;
  bool space_before = false;
};

bool closes(std::string_view character) {
  constexpr std::string_view kClosing[] = {"，", "。", "；", "：", "、", "）", "」", "”", "！", "？"};
  return std::ranges::find(kClosing, character) != std::end(kClosing);
}

std::vector<Piece> pieces_of(std::string_view utf8) {
  std::vector<Piece> pieces;
  bool space = false, wide_before = false;
  for (std::string_view rest = utf8; !rest.empty();) {
    const CodePoint point = take_code_point(rest);
    if (point.value == ' ') {
      space = true;
      continue;
    }
    const bool wide = display_columns(point.bytes) > 1;
    const bool joins = !pieces.empty() && !space && (closes(point.bytes) || (!wide && !wide_before));
    if (joins) {
      pieces.back().text += point.bytes;
    } else {
      pieces.push_back({std::string(point.bytes), space});
    }
    wide_before = wide;
    space = false;
  }
  return pieces;
}

}  // namespace

std::vector<std::string> wrap_text(std::string_view utf8, int columns) {
  std::vector<std::string> lines(1);
  int used = 0;
  for (const Piece& piece : pieces_of(utf8)) {
    const int space = piece.space_before && used > 0 ? 1 : 0, width = display_columns(piece.text);
    if (used + space + width <= columns) {
      lines.back() += cat(space == 1 ? " " : "", piece.text);
      used += space + width;
      continue;
    }
    if (used > 0) lines.emplace_back();
    for (std::string_view rest = piece.text; !rest.empty();) {
      std::string part = truncate_columns(rest, columns);
      if (part.empty())
        part = take_code_point(rest).bytes;  // wider than the whole line
      else
        rest.remove_prefix(part.size());
      lines.back() = part;
      if (!rest.empty()) lines.emplace_back();
    }
    used = display_columns(lines.back());
  }
  return lines;
}

}  // namespace weft::doctor
