// Runs a program as the ranks of this host, and again after a failure as often as was asked for. Whatever happens, no
// process of theirs is left when it returns or throws.
//
//   const RunResult result = supervise({.argv = {"python3", "train.py"}, .num_local = 4});
//   return result.exit_code;
//
// Threads: call it from the only thread of the process. Signals to us go to the ranks meanwhile.
// Failure: Error(kInput) for what cannot be started; a rank that fails is in the result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/launcher/launch_spec.h"
#include "weft/launcher/rank_group.h"

namespace weft::launcher {

struct AttemptResult {
  std::vector<RankEnd> ranks = {};
  std::optional<int> first_failure = {};  // a rank
};

struct RunResult {
  int world = 1;
  std::vector<AttemptResult> attempts = {};
  int exit_code = 0;            // of the first failure of the last attempt, or 128 and the signal that ended the run
  std::string last_words = {};  // the first failure in words, to be shown last; "" when there was none
};

RunResult supervise(const LaunchSpec& spec);

// {"schema": 1, ...}, see docs/launching.md.
std::string to_json(const RunResult& result);

}  // namespace weft::launcher
