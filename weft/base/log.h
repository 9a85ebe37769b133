// Log lines on standard error, "[weft] ..." or "[weft rank 3] ...", one write per line so that ranks never tear each
// other's lines. The level comes from WEFT_LOG (debug, info, warn, error; default info).
//
// Threads: any. Failure: a closed standard error loses the line and nothing else.
#pragma once

#include <functional>
#include <string_view>

#include "weft/base/text.h"

namespace weft {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

void log_line(LogLevel level, std::string_view message);
bool log_enabled(LogLevel level);

// Ranks set this once, at start; -1 (the default) prints no rank.
void set_log_rank(int rank);
int log_rank();

// Called under the log's lock before each line is written: whoever draws a live line on the terminal erases it there.
// Pass nullptr to remove it. The callback must not log.
void set_log_prelude(std::function<void()> prelude);

template <typename... Pieces>
void log_debug(const Pieces&... pieces) {
  if (log_enabled(LogLevel::kDebug)) log_line(LogLevel::kDebug, cat(pieces...));
}
template <typename... Pieces>
void log_info(const Pieces&... pieces) {
  if (log_enabled(LogLevel::kInfo)) log_line(LogLevel::kInfo, cat(pieces...));
}
template <typename... Pieces>
void log_warn(const Pieces&... pieces) {
  if (log_enabled(LogLevel::kWarn)) log_line(LogLevel::kWarn, cat(pieces...));
}
template <typename... Pieces>
void log_error(const Pieces&... pieces) {
  if (log_enabled(LogLevel::kError)) log_line(LogLevel::kError, cat(pieces...));
}

}  // namespace weft
