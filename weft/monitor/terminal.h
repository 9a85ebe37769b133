// What the other end of a file descriptor can show, and the few text tools that depend on it.
//
// A Terminal is a plain value: detect it once, pass it along, make one up in a test. Free functions, any thread; the
// environment is read when detect_terminal() runs. Nothing here throws: what cannot be found out has a safe default.
#pragma once

#include <string>
#include <string_view>

namespace weft {

struct Terminal {
  bool is_tty = false;
  int columns = 80;      // at least 1
  bool colour = false;   // never without is_tty
  bool unicode = false;  // box-drawing and block characters may be used
};

// Columns come from the window, else COLUMNS, else 80. Colour needs a tty, no NO_COLOR, and a TERM other than "dumb".
Terminal detect_terminal(int fd);

// The window's columns now, or 0 when fd has no window.
int window_columns(int fd);

enum class Style { kPlain, kBold, kDim, kGreen, kRed };

// The text in that style, or unchanged where the terminal has no colour.
std::string style(std::string_view text, Style how, const Terminal& terminal);

// The longest start of the text that fits in `columns`; when something is cut, `ending` ("…") takes part of the room.
std::string truncate_columns(std::string_view utf8, int columns, std::string_view ending = "");

// Text from outside, made safe to show: control characters become spaces, damaged bytes U+FFFD. On a tty that is not
// known to speak UTF-8 every other character outside ASCII becomes '?', so that widths stay true.
std::string printable(std::string_view text, const Terminal& terminal);

// Spaces up to `columns`; text that is wider stays as it is.
std::string pad_columns(std::string_view utf8, int columns);

// One write(2). A reader that left (EPIPE, without its signal), a full pipe (EAGAIN) and any other failure lose the
// text and nothing else: what is shown must never stop what is computed.
void write_quietly(int fd, std::string_view text);

// Whether a write would go through at once. False while the user holds the terminal with Ctrl-S.
bool can_write_now(int fd);

}  // namespace weft
