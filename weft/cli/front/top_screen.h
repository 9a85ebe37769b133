// The terminal while `weft top` draws on it: its second screen, no cursor, keys without Return. Leaving, by whatever way
// but SIGKILL, gives it back as it was.
//
// Owner: the command, one at a time. Threads: one. Failure: none; what the terminal cannot do is left out.
#pragma once

#include <termios.h>

#include <string>
#include <vector>

#include "weft/base/fd.h"

namespace weft::cli {

class TopScreen {
 public:
  TopScreen();
  ~TopScreen();
  TopScreen(const TopScreen&) = delete;
  TopScreen& operator=(const TopScreen&) = delete;

  // In place of what was there. Written at one go, so that nothing flickers.
  void draw(const std::vector<std::string>& lines);

  // Waits, and answers true when the user wants to leave: q, Ctrl-C, Esc, a signal, or the terminal is gone. A changed
  // window ends the wait early.
  bool wait_for_leave(double seconds);

  static int rows();  // of the window; 24 when unknown

 private:
  bool read_keys();

  UniqueFd signals_;
  termios before_{};
  bool has_keys_ = false;
};

}  // namespace weft::cli
