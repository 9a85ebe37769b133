// The text of a progress line, apart from when and where it is drawn (progress.h). Pure functions, any thread, no
// failure.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "weft/monitor/terminal.h"

namespace weft {

struct ProgressSample {
  int64_t step = 0;
  int64_t total_steps = 0;                                     // 0: unknown
  double fraction = std::numeric_limits<double>::quiet_NaN();  // done, 0 to 1; NaN: unknown
  std::optional<double> loss = {};                             // may be NaN or infinite, and is then shown so
  double tokens_per_s = 0;                                     // 0: unknown
  double eta_s = -1;                                           // seconds left; negative: unknown
  std::string_view unit = "step";                              // what is counted; a literal
};

// One line for a tty, without its line end, at most terminal.columns - 1 wide: the last column stays free because a
// cursor parked behind it wraps on some terminals. What does not fit is left out, the least important part first.
std::string live_progress_line(std::string_view title, const ProgressSample& sample, const Terminal& terminal);

// One full sentence for a file or a pipe, without its line end: no control character, no limit of width.
std::string plain_progress_line(std::string_view title, const ProgressSample& sample, const Terminal& terminal);

}  // namespace weft
