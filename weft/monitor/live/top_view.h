// A LiveState as text for a terminal: what `weft top` draws.
//
// Pure functions, any thread, no failure. Text from the run is made printable; no line is wider than the terminal.
#pragma once

#include <string>
#include <vector>

#include "weft/monitor/live/run_state.h"
#include "weft/monitor/terminal.h"

namespace weft {

// The whole view, at most `rows` lines, without line ends. What does not fit is left out: log lines first, then ranks
// (the healthy ones before those in trouble).
std::vector<std::string> top_lines(const LiveState& state, const Terminal& terminal, int rows);

// One sentence for a file or a pipe.
std::string top_sentence(const LiveState& state);

// The values as a row of block characters, oldest first, at most `columns` wide; ASCII where the terminal needs it.
std::string sparkline(const std::vector<double>& values, int columns, const Terminal& terminal);

}  // namespace weft
