// Showing a run in the terminal, for `weft top` and for `weft watch HOST:PORT`.
#pragma once

#include <string>

#include "weft/monitor/live/state_source.h"

namespace weft::cli {

struct TopOptions {
  bool once = false;
  bool json = false;
  std::string page = {};  // address of the same run for a browser, where there is one
};

// Until the user leaves or, into a pipe, until the run has ended. Returns the exit code. Failure: Error where the first
// reading fails; later ones are shown and tried again.
int show_top(StateSource& source, const TopOptions& options);

}  // namespace weft::cli
