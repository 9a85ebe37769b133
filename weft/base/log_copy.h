// A second place for log lines beside standard error: a file of the run that somebody can look at later, or from elsewhere.
//
// Threads: any. Failure: a file that cannot be opened is an IoError; one that takes no more lines loses them, and nothing else.
#pragma once

#include <string>

#include "weft/base/log.h"

namespace weft {

// Lines at or above the level are added to the file, with the time (UTC) before them, from now on. Several processes may share it: a line
// is one write. Empty: no more.
void copy_log_to(const std::string& path, LogLevel at_least);

}  // namespace weft
