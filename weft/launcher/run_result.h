// How a run went: every attempt and every rank of it. A plain value; `weft run --json` writes it.
#pragma once

#include <optional>
#include <string>
#include <vector>

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

// {"schema": 1, ...}, see docs/launching.md.
std::string to_json(const RunResult& result);

}  // namespace weft::launcher
