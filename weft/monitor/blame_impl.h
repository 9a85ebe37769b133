// What the parts of blame share: the dumps joined by group, and words for ranks and collectives.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/monitor/blame.h"

namespace weft::detail {

// The calls of one rank in one group, by sequence number.
using Calls = std::map<uint64_t, const FlightEntry*>;

struct JoinedGroup {
  std::string name;
  std::vector<int64_t> members;      // as the dumps name them, else those that called something
  std::map<int64_t, Calls> by_rank;  // ranks with a dump only
  // 0: none.
  uint64_t last_reached(int64_t rank) const;
};

// Points into the dumps.
struct Joined {
  const std::vector<FlightDump>& dumps;
  std::vector<JoinedGroup> groups;
  std::vector<int64_t> missing;  // ranks without a dump
};

Joined join_dumps(const std::vector<FlightDump>& dumps);

bool is_unfinished(const FlightEntry& entry);  // queued, started or failed

std::vector<BlameFinding> find_mismatches(const Joined& joined);
// The findings about ranks that others wait for.
std::vector<BlameFinding> find_waits(const Joined& joined);
void measure_lateness(const Joined& joined, Blame& blame);

std::string rank_words(const std::vector<int64_t>& ranks);  // "rank 2", "ranks 0-3, 7"
std::string call_words(const FlightEntry& entry);           // "all_reduce of 4.0 MiB (float, sum)"
std::string numbered_words(const FlightEntry& entry);       // "all_reduce #17"

}  // namespace weft::detail
