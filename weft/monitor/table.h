// The closing table of a command: labels, values, notes, and a mark where something is good or bad.
//
// A value type and a pure function: any thread, no failure. The text ends with a line end. Control characters appear
// only where the terminal has colour; box-drawing only where it has unicode. No line is wider than terminal.columns.
#pragma once

#include <string>
#include <vector>

#include "weft/monitor/terminal.h"

namespace weft {

enum class Mark { kNone, kGood, kBad };

struct TableRow {
  std::string label;
  std::string value = {};
  std::string note = {};  // may be empty; moves below the value where the terminal is narrow
  Mark mark = Mark::kNone;
};

struct Table {
  std::string title;  // may be empty
  std::vector<TableRow> rows = {};
};

std::string render_table(const Table& table, const Terminal& terminal);

// Lines of at most `columns`, broken between words where possible. At least one line. Requires: columns > 0.
std::vector<std::string> wrap_columns(std::string_view utf8, int columns);

}  // namespace weft
