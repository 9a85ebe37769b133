#include <algorithm>

#include "weft/base/text.h"
#include "weft/base/utf8.h"
#include "weft/doctor/rules/report_impl.h"

namespace weft::doctor {
namespace {

constexpr int kTabColumns = 4;
constexpr char32_t kByteOrderMark = 0xFEFF;
// Below this a cut line would show nothing of use; it is shown wider than the terminal instead.
constexpr int kMinRoom = 20;

// One character of the line as it is shown.
struct Cell {
  std::string shown;
  int column = 0;  // on the screen, from 0
  int columns = 0;
  bool marked = false;
};

// A secret is as wide as it is, so that the line below points at what it is meant to.
std::vector<Cell> cells_of(std::string_view line, config::Span mark, const std::vector<config::Span>& hidden,
                           const Terminal& terminal) {
  std::vector<bool> is_hidden(line.size());
  for (const config::Span span : hidden)
    std::fill(is_hidden.begin() + static_cast<std::ptrdiff_t>(span.begin),
              is_hidden.begin() + static_cast<std::ptrdiff_t>(std::min(span.end, line.size())), true);
  std::vector<Cell> cells;
  int column = 0;
  for (std::string_view rest = line; !rest.empty();) {
    const size_t at = line.size() - rest.size();
    const CodePoint point = take_code_point(rest);
    if (point.value == kByteOrderMark) continue;
    Cell cell{printable(point.bytes, terminal), column, 0, at >= mark.begin && at < mark.end};
    if (point.value == '\t') cell.shown.assign(static_cast<size_t>(kTabColumns - column % kTabColumns), ' ');
    cell.columns = display_columns(cell.shown);
    if (is_hidden[at]) cell.shown.assign(static_cast<size_t>(cell.columns), '*');
    column += cell.columns;
    cells.push_back(std::move(cell));
  }
  return cells;
}

// Columns [from, to) of the line that are shown.
struct Window {
  int from = 0;
  int to = 0;
};

// The whole line where it fits; else from a little before the mark, so that what leads to it can be read.
Window window_for(int total, int mark_begin, int mark_end, int room) {
  if (total <= room) return {0, total};
  int from = mark_end <= room ? 0 : std::max(0, mark_begin - room / 4);
  from = std::min(from, total - room);
  return {from, from + room};
}

struct Marked {
  std::string line;
  std::string underline;
};

Marked cut(const std::vector<Cell>& cells, Window window, int total, std::string_view ellipsis) {
  const int width = display_columns(ellipsis);
  Marked out;
  if (window.from > 0) {
    out = {std::string(ellipsis), std::string(static_cast<size_t>(width), ' ')};
    window.from += width;
  }
  const bool cut_after = window.to < total;
  if (cut_after) window.to -= width;
  for (const Cell& cell : cells) {
    if (cell.column < window.from || cell.column + cell.columns > window.to) continue;
    out.line += cell.shown;
    out.underline.append(static_cast<size_t>(cell.columns), cell.marked ? '^' : ' ');
  }
  if (cut_after) out.line += ellipsis;
  // A place between two characters, or after the last: one caret.
  if (out.underline.find('^') == std::string::npos) out.underline += '^';
  out.underline.erase(out.underline.find_last_of('^') + 1);
  return out;
}

// What to underline of a span that starts in the line [start, end) of the text: an object or a list of many lines has its
// bracket marked, an empty span (a text that stops too early) the character it stands before.
config::Span marked_part(const config::Source& source, config::Span span, size_t end) {
  const bool goes_on = span.end > end;
  const bool bracket =
      goes_on && span.begin < end && std::string_view("{[").find(source.text()[span.begin]) != std::string_view::npos;
  return {span.begin, bracket ? span.begin + 1 : std::max(span.end, span.begin + 1)};
}

// Of spans of the text, those in the line [start, end), from its start.
std::vector<config::Span> in_line(const std::vector<config::Span>& spans, size_t start, size_t end) {
  std::vector<config::Span> out;
  for (const config::Span span : spans) {
    if (span.begin < end && start < span.end) out.push_back({std::max(span.begin, start) - start, span.end - start});
  }
  return out;
}

Marked marked_line(const Page& page, config::Span span, int number, int room, const Terminal& terminal) {
  const config::Source& source = page.source;
  const std::string_view line = source.line(number);
  const auto start = static_cast<size_t>(line.data() - source.text().data());
  const config::Span mark = marked_part(source, span, start + line.size());
  const config::Span here = {mark.begin - std::min(mark.begin, start), mark.end - std::min(mark.end, start)};
  const auto cells = cells_of(line, here, in_line(page.secrets, start, start + line.size()), terminal);
  int total = 0, mark_begin = -1, mark_end = 0;
  for (const Cell& cell : cells) {
    total = cell.column + cell.columns;
    if (!cell.marked) continue;
    if (mark_begin < 0) mark_begin = cell.column;
    mark_end = total;
  }
  if (mark_begin < 0) mark_begin = mark_end = total;
  const Window window = window_for(total, mark_begin, mark_end, std::max(kMinRoom, room));
  return cut(cells, window, total, shows_unicode(terminal) ? "…" : "...");
}

}  // namespace

std::string excerpt(const Page& page, config::Span span, config::Severity severity, const Terminal& terminal) {
  const int number = page.source.place(span.begin).line;
  const std::string digits = pad_columns(cat(number), 4);
  const std::string gutter = cat(" ", std::string(digits.size(), ' '), " |");
  const int room = terminal.columns - display_columns(gutter) - 1;
  const Marked marked = marked_line(page, span, number, room, terminal);
  return cat(style(cat(" ", digits, " |"), Style::kDim, terminal), marked.line.empty() ? "" : " ", marked.line, "\n",
             style(gutter, Style::kDim, terminal), " ", style(marked.underline, style_of(severity), terminal), "\n");
}

}  // namespace weft::doctor
