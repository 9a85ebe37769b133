// The rank that failed first, in words. The others fail because it did, so it is the one to show: last, where people
// look, and whole.
//
// Free functions, no state, any thread. Nothing here fails: a log that cannot be read has no last lines.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "weft/launcher/launch_spec.h"
#include "weft/launcher/rank_group.h"

namespace weft::launcher {

struct Failure {
  RankEnd end = {};
  int world = 1;
  int attempt = 0, max_restarts = 0;
  std::string log = {};                      // the file its output went to, or ""
  std::vector<std::string> last_lines = {};  // of its standard error, or of its log
};

// Several lines, ending with a line end: "error: rank 3 of 8 failed: ..." and what it said last.
std::string describe(const Failure& failure);

// What follows a failure, for the line that tells of it.
std::string ending_the_others(const LaunchSpec& spec);

// What a shell reports: the code, or 128 and the signal.
int exit_code_of(const ExitStatus& status);

// Which of the ranks that were found ended in one glance failed first, or nothing when none failed. A rank that a signal
// killed comes before those that exited: they may have exited because it was gone.
std::optional<size_t> first_of(std::span<const RankEnd> ends, std::span<const size_t> ended);

// The last lines of a file, safe to show.
std::vector<std::string> last_lines_of_file(const std::string& path);

}  // namespace weft::launcher
