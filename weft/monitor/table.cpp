#include "weft/monitor/table.h"

#include <algorithm>

#include "weft/base/text.h"
#include "weft/base/utf8.h"

namespace weft {
namespace {

constexpr int kGap = 2;
// Below this a frame would take more room than it gives order.
constexpr int kMinFramedColumns = 24;

struct Layout {
  bool framed;
  int room;           // columns inside the frame
  int mark;           // 2 when any row has a mark, else 0
  int label;          // width of the label column
  int value;          // width of the value column
  bool notes_beside;  // on the value's line; else below it
  bool stacked;       // label above value: too narrow for two columns
};

// Texts of one screen line, already styled, with the width that escapes would hide.
struct Line {
  std::string text;
  int columns = 0;

  void add(std::string_view plain, Style how, const Terminal& terminal) {
    text += style(plain, how, terminal);
    columns += display_columns(plain);
  }
  void pad_to(int width) {
    text += std::string(static_cast<size_t>(std::max(0, width - columns)), ' ');
    columns = std::max(columns, width);
  }
};

Table cleaned(const Table& table, const Terminal& terminal) {
  Table out{printable(table.title, terminal), table.rows};
  for (auto& row : out.rows) {
    row.label = printable(row.label, terminal);
    row.value = printable(row.value, terminal);
    row.note = printable(row.note, terminal);
  }
  return out;
}

int widest(const std::vector<TableRow>& rows, std::string TableRow::* field) {
  int columns = 0;
  for (const auto& row : rows) columns = std::max(columns, display_columns(row.*field));
  return columns;
}

Layout layout_for(const Table& table, int columns) {
  Layout layout{};
  layout.framed = columns >= kMinFramedColumns;
  layout.room = std::max(1, layout.framed ? columns - 4 : columns);
  const bool marked = std::ranges::any_of(table.rows, [](const auto& row) { return row.mark != Mark::kNone; });
  layout.mark = marked && layout.room > 2 ? 2 : 0;
  layout.stacked = layout.room < kMinFramedColumns;
  const int body = layout.room - layout.mark;
  const int label = widest(table.rows, &TableRow::label), value = widest(table.rows, &TableRow::value);
  const int note = widest(table.rows, &TableRow::note);
  layout.notes_beside = label + kGap + value + (note > 0 ? kGap + note : 0) <= body;
  // A long label gets half at most; it wraps, and so does the value.
  layout.label = label + kGap + value <= body ? label : std::min(label, std::max(1, body / 2 - kGap));
  layout.value = layout.notes_beside ? value : std::max(1, body - layout.label - kGap);
  return layout;
}

void add_mark(Line& line, Mark mark, const Layout& layout, const Terminal& terminal) {
  if (layout.mark == 0) return;
  const char* good = terminal.unicode ? "✓" : "+";
  const char* bad = terminal.unicode ? "✗" : "!";
  if (mark == Mark::kGood) line.add(good, Style::kGreen, terminal);
  if (mark == Mark::kBad) line.add(bad, Style::kRed, terminal);
  line.pad_to(layout.mark);
}

void add_stacked(std::vector<Line>& lines, const TableRow& row, const Layout& layout, const Terminal& terminal) {
  const int body = layout.room - layout.mark;
  bool first = true;
  const auto add = [&](const std::string& text, Style how) {
    if (text.empty()) return;
    for (const auto& piece : wrap_columns(text, body)) {
      Line& line = lines.emplace_back();
      add_mark(line, first ? row.mark : Mark::kNone, layout, terminal);
      line.add(piece, how, terminal);
      first = false;
    }
  };
  add(row.label, Style::kDim);
  add(row.value, Style::kBold);
  add(row.note, Style::kDim);
}

// Label and value side by side, each wrapped in its own column; then the note, beside or below.
void add_columns(std::vector<Line>& lines, const TableRow& row, const Layout& layout, const Terminal& terminal) {
  const auto labels = wrap_columns(row.label, std::max(1, layout.label));
  auto values = wrap_columns(row.value, std::max(1, layout.value));
  const size_t notes_from = values.size();
  if (!layout.notes_beside && !row.note.empty()) {
    for (auto& piece : wrap_columns(row.note, layout.value)) values.push_back(std::move(piece));
  }
  for (size_t i = 0; i < std::max(labels.size(), values.size()); ++i) {
    Line& line = lines.emplace_back();
    add_mark(line, i == 0 ? row.mark : Mark::kNone, layout, terminal);
    if (i < labels.size()) line.add(labels[i], Style::kPlain, terminal);
    line.pad_to(layout.mark + layout.label + kGap);
    if (i < values.size()) line.add(values[i], i < notes_from ? Style::kBold : Style::kDim, terminal);
    if (i > 0 || !layout.notes_beside || row.note.empty()) continue;
    line.pad_to(layout.mark + layout.label + kGap + layout.value + kGap);
    line.add(row.note, Style::kDim, terminal);
  }
}

struct Box {
  const char *top_left, *top_right, *bottom_left, *bottom_right, *across, *down;
};
constexpr Box kUnicodeBox{"╭", "╮", "╰", "╯", "─", "│"};
constexpr Box kAsciiBox{"+", "+", "+", "+", "-", "|"};

std::string repeated(const char* piece, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += piece;
  return out;
}

std::string top_edge(const Box& box, const std::string& title, int inner, const Terminal& terminal) {
  if (title.empty())
    return style(cat(box.top_left, repeated(box.across, inner + 2), box.top_right), Style::kDim, terminal);
  const int rest = inner - display_columns(title) - 1;
  return cat(style(cat(box.top_left, box.across), Style::kDim, terminal), " ", style(title, Style::kBold, terminal),
             " ", style(cat(repeated(box.across, rest), box.top_right), Style::kDim, terminal));
}

std::string framed(const std::string& title, std::vector<Line>& lines, const Layout& layout, const Terminal& terminal) {
  const Box& box = terminal.unicode ? kUnicodeBox : kAsciiBox;
  const std::string head = truncate_columns(title, layout.room - 1, terminal.unicode ? "…" : "...");
  int inner = display_columns(head) + 1;
  for (const auto& line : lines) inner = std::max(inner, line.columns);
  const std::string side = style(box.down, Style::kDim, terminal);
  std::string out = cat(top_edge(box, head, inner, terminal), "\n");
  for (auto& line : lines) {
    line.pad_to(inner);
    out += cat(side, " ", line.text, " ", side, "\n");
  }
  const std::string bottom = cat(box.bottom_left, repeated(box.across, inner + 2), box.bottom_right);
  return out += style(bottom, Style::kDim, terminal) + "\n";
}

std::string unframed(const std::string& title, const std::vector<Line>& lines, const Layout& layout,
                     const Terminal& terminal) {
  std::string out;
  if (!title.empty()) {
    for (const auto& piece : wrap_columns(title, layout.room)) out += style(piece, Style::kBold, terminal) + "\n";
  }
  for (const auto& line : lines) out += line.text + "\n";
  return out;
}

// The longest piece of a word that fits; a character wider than the whole line becomes '?'.
std::string take_piece(std::string_view& word, int columns) {
  std::string piece = truncate_columns(word, columns);
  if (piece.empty()) {
    take_code_point(word);
    return "?";
  }
  word.remove_prefix(piece.size());
  return piece;
}

}  // namespace

std::vector<std::string> wrap_columns(std::string_view utf8, int columns) {
  std::vector<std::string> lines(1);
  for (size_t at = 0; at < utf8.size();) {
    const size_t space = std::min(utf8.find(' ', at), utf8.size());
    std::string_view word = utf8.substr(at, space - at);
    at = space + 1;
    const int used = display_columns(lines.back());
    if (used > 0 && used + 1 + display_columns(word) <= columns) {
      lines.back() += cat(" ", word);
      continue;
    }
    while (!word.empty()) {
      if (!lines.back().empty()) lines.emplace_back();
      lines.back() = take_piece(word, columns);
    }
  }
  return lines;
}

std::string render_table(const Table& table, const Terminal& terminal) {
  const Table clean = cleaned(table, terminal);
  const Layout layout = layout_for(clean, std::max(1, terminal.columns));
  std::vector<Line> lines;
  for (const auto& row : clean.rows) {
    if (layout.stacked)
      add_stacked(lines, row, layout, terminal);
    else
      add_columns(lines, row, layout, terminal);
  }
  return layout.framed ? framed(clean.title, lines, layout, terminal) : unframed(clean.title, lines, layout, terminal);
}

}  // namespace weft
