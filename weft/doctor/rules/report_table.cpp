#include <algorithm>
#include <array>
#include <map>

#include "weft/base/text.h"
#include "weft/doctor/rules/report_impl.h"

namespace weft::doctor {
namespace {

using config::Language;
using config::Problem;
using config::Severity;

enum class Sign { kGood, kBad, kAdvice };
enum Column { kSetting, kCurrent, kProblem, kSuggested, kNumColumns };

constexpr int kGap = 2;
// Narrower, and a column would hold a word at best: the cells go below one another instead.
constexpr int kMinTableColumns = 60;
constexpr int kMinColumn = 8;

struct Row {
  Sign sign = Sign::kBad;
  std::array<std::string, kNumColumns> cells = {};
};

using Widths = std::array<int, kNumColumns>;

std::string sign_text(Sign sign, const Terminal& terminal) {
  const bool unicode = shows_unicode(terminal);
  switch (sign) {
    case Sign::kGood: return style(unicode ? "✅" : "ok", Style::kGreen, terminal);
    case Sign::kBad: return style(unicode ? "❌" : "!!", Style::kRed, terminal);
    case Sign::kAdvice: return style(unicode ? "💡" : "->", Style::kBold, terminal);
  }
  return "";
}

// What a rule is about, in a line; the message itself is below the table.
std::map<std::string_view, std::string_view> short_texts(Language language) {
  std::map<std::string_view, std::string_view> texts;
  for (const config::RuleInfo& info : all_rules()) texts.emplace(info.id, say(language, info.what, info.what_zh));
  return texts;
}

std::vector<Row> rows_of(const Diagnosis& diagnosis, Language language, const Terminal& terminal) {
  const auto short_text = short_texts(language);
  std::vector<Row> rows;
  const auto add = [&](Sign sign, std::string_view path, std::string_view current, std::string_view text,
                       std::string_view suggested) {
    if (path.empty()) path = say(language, "(the file)", "（整个文件）");
    Row& row = rows.emplace_back(Row{sign});
    const std::string_view cells[] = {path, current, text, suggested};
    for (size_t i = 0; i < kNumColumns; ++i) row.cells[i] = printable(cells[i], terminal);
  };
  for (const Problem& problem : diagnosis.problems) {
    const auto found = short_text.find(problem.rule);
    const std::string_view text = found == short_text.end() ? problem.message.in(language) : found->second;
    add(problem.severity == Severity::kAdvice ? Sign::kAdvice : Sign::kBad, problem.path, problem.current, text,
        problem.suggested);
  }
  for (const Good& good : diagnosis.good) add(Sign::kGood, good.path, good.value, good.why.in(language), "");
  return rows;
}

Row heading(Language language) {
  const auto word = [&](std::string_view en, std::string_view zh) { return std::string(say(language, en, zh)); };
  return {Sign::kGood,
          {word("setting", "设置"), word("now", "当前值"), word("finding", "结论"), word("better", "建议值")}};
}

// Natural widths, then the widest column gives way until all fit.
Widths fitted(const std::vector<Row>& rows, int room) {
  Widths widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < kNumColumns; ++i) widths[i] = std::max(widths[i], display_columns(row.cells[i]));
  }
  int total = (kNumColumns - 1) * kGap;
  for (const int width : widths) total += width;
  for (; total > room; --total) {
    int& widest = *std::ranges::max_element(widths);
    if (widest <= kMinColumn) break;
    --widest;
  }
  return widths;
}

// Where a person would break a path that starts with `start`: after the last dot if the rest then fits, else after an
// underscore, else where the line ends.
size_t path_break(std::string_view path, std::string_view start, int columns) {
  const size_t dot = start.rfind('.');
  if (dot != std::string::npos && display_columns(path.substr(dot + 1)) <= columns) return dot + 1;
  const size_t joint = start.find_last_of("._");
  return joint == std::string::npos || joint + 1 < start.size() / 2 ? start.size() : joint + 1;
}

std::vector<std::string> wrap_path(std::string_view path, int columns) {
  std::vector<std::string> lines;
  while (display_columns(path) > columns) {
    const size_t end = std::max<size_t>(1, path_break(path, truncate_columns(path, columns), columns));
    lines.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  lines.emplace_back(path);
  return lines;
}

std::string table_row(const Row& row, const std::string& sign, const Widths& widths, Style how,
                      const Terminal& terminal) {
  std::array<std::vector<std::string>, kNumColumns> lines;
  size_t height = 1;
  for (size_t i = 0; i < kNumColumns; ++i) {
    const int width = std::max(1, widths[i]);
    lines[i] = i == kSetting ? wrap_path(row.cells[i], width) : wrap_text(row.cells[i], width);
    height = std::max(height, lines[i].size());
  }
  std::string out;
  for (size_t at = 0; at < height; ++at) {
    std::string line;
    size_t pending = kGap;
    for (size_t i = 0; i < kNumColumns; ++i) {
      const std::string text = at < lines[i].size() ? lines[i][at] : "";
      if (!text.empty()) {
        line += cat(std::string(pending, ' '), style(text, how, terminal));
        pending = 0;
      }
      pending += static_cast<size_t>(widths[i] - display_columns(text) + kGap);
    }
    out += cat(at == 0 ? sign : "  ", line, "\n");
  }
  return out;
}

std::string stacked_row(const Row& row, const Row& names, const Terminal& terminal) {
  std::string out;
  const int room = std::max(1, terminal.columns - 3);
  for (const std::string& piece : wrap_path(row.cells[kSetting], room)) {
    out += cat(out.empty() ? sign_text(row.sign, terminal) : "  ", " ", style(piece, Style::kBold, terminal), "\n");
  }
  for (const size_t i : {kCurrent, kProblem, kSuggested}) {
    if (!row.cells[i].empty()) out += wrapped(cat(names.cells[i], ": "), row.cells[i], 3, terminal);
  }
  return out;
}

}  // namespace

std::string findings_table(const Diagnosis& diagnosis, Language language, const Terminal& terminal) {
  std::vector<Row> rows = rows_of(diagnosis, language, terminal);
  if (rows.empty()) return "";
  const Row names = heading(language);
  std::string out;
  if (terminal.columns < kMinTableColumns) {
    for (const Row& row : rows) out += stacked_row(row, names, terminal);
    return out;
  }
  rows.insert(rows.begin(), names);
  const Widths widths = fitted(rows, terminal.columns - 2 - kGap);
  out += table_row(names, "  ", widths, Style::kDim, terminal);
  for (size_t i = 1; i < rows.size(); ++i) {
    out += table_row(rows[i], sign_text(rows[i].sign, terminal), widths, Style::kPlain, terminal);
  }
  return out;
}

}  // namespace weft::doctor
