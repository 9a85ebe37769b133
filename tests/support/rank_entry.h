// The two ends of re-executing a test binary as a rank: the environment the parent gives, and how the rank reads it.
// Internal to tests/support; tests use rank_processes.h.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/deadline.h"

namespace weft::test {

struct RankAssignment {
  std::string entry;
  int rank, world;
  std::filesystem::path dir;
  Seconds limit;  // the ranks' common deadline
};

// WEFT_TEST_RANK_ENTRY, WEFT_TEST_RANK, WEFT_TEST_WORLD, WEFT_TEST_DIR and two of our own, as "NAME=value".
std::vector<std::string> rank_environment(const RankAssignment& assignment);

// Throws std::invalid_argument, listing the entries there are.
void check_rank_main_exists(const std::string& name);

}  // namespace weft::test
