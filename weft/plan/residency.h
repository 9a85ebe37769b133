// Which parameters are gathered when, and how long they stay: stage 3's schedule, from the order in which one step touched them.
//
//   trace   the units that operators touched, one after the other; a unit is what is gathered at once
//   stay    one time that a unit is resident: gathered at `start`, first read at `first`, given back once `last` is over
//
// What has to leave when room is needed is what is needed again last, or never (furthest next use). That decides what is gathered how
// often. A unit that will have to leave before it is needed again leaves as soon as it has been used, and a gather that has to be made
// is begun as early as there is room for it: both change when bytes move, never how many.
//
//   const Residency plan = make_residency(trace, sizes, {.max_live = 1'000'000, .prefetch = 50'000});
//   plan.gathered_elements;      // of one step, on every rank
//
// Pure functions: any thread, and the same result on every rank for the same trace. Requires: units that `sizes` has.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::plan {

struct Touch {
  int unit = 0;
  bool with_previous = false;  // by the same operator as the one before: both are needed at once

  bool operator==(const Touch&) const = default;
};

struct ResidencyLimits {
  int64_t max_live = 0;  // resident elements; a single operator may need more and gets it
  int64_t prefetch = 0;  // elements gathered ahead of their use
  // A unit that is touched again only after so many elements of others leaves meanwhile.
  int64_t max_reuse_distance = INT64_MAX;
};

// Before the first touch, when the parameters have just been updated.
inline constexpr int kBeforeFirst = -1;

struct Stay {
  int unit = 0;
  int start = 0, first = 0, last = 0;  // positions in the trace; `start` may be kBeforeFirst

  bool operator==(const Stay&) const = default;
};

struct Residency {
  std::vector<Stay> stays = {};  // in the order in which they are gathered, which is that of `first`
  int64_t gathered_elements = 0;
  int64_t peak_elements = 0;
};

Residency make_residency(const std::vector<Touch>& trace, const std::vector<int64_t>& sizes,
                         const ResidencyLimits& limits);

}  // namespace weft::plan
