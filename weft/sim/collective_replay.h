// What each rank holds of each part after each step of a schedule: the messages played back, one after the other.
//
//   for (const Holdings& after : replay(schedule)) ... after.of(rank, part)
//
// A holding is the set of ranks whose data is in it: empty for nothing, one rank for a plain copy, all ranks for the whole
// sum. Pure functions, any thread, no failure.
#pragma once

#include <vector>

#include "weft/sim/collective_cost.h"

namespace weft::sim {

// The ranks whose data a part contains, ascending.
using Contributions = std::vector<int>;

struct Holdings {
  int num_parts = 1;
  std::vector<Contributions> cells;  // by rank, then part

  const Contributions& of(int rank, int part) const { return cells[index(rank, part)]; }
  size_t index(int rank, int part) const {
    return static_cast<size_t>(rank) * static_cast<size_t>(num_parts) + static_cast<size_t>(part);
  }
};

// Before the first step, then after each: num_steps() + 1 of them.
std::vector<Holdings> replay(const Schedule& schedule);

// Whether the holdings are what the algorithm promises at its end.
bool is_complete(const Schedule& schedule, const Holdings& holdings);

// Whether this holding is what the algorithm is after for that part: the data of the one rank that had it, or all ranks'.
bool is_final(const Schedule& schedule, const Contributions& held);

}  // namespace weft::sim
