// Who is to blame for a run that hung or failed: the ranks' flight recorder dumps, joined.
//
//   const Blame blame = find_blame(read_flight_dumps(Env::posix(), folder));
//   std::fputs(blame_text(blame, detect_terminal(STDOUT_FILENO)).c_str(), stdout);
//
// Collectives are aligned by group and sequence number. send and recv, which two ranks do alone, are left out. Values and
// pure functions: any thread, no failure; a dump with nonsense in it gives findings about nonsense.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/monitor/flight_recorder.h"
#include "weft/monitor/terminal.h"

namespace weft {

// In the order of their weight: an earlier kind explains a later one, not the other way round.
enum class BlameKind {
  kMismatch,      // ranks called different collectives under one number
  kNoDump,        // a rank left no dump: it died
  kNeverReached,  // a rank did not come to where others wait, and waits for nobody itself
  kOrder,         // ranks wait for each other in different groups
  kUnfinished,    // all ranks came, and it did not finish
  kNone,
};

std::string_view name_of(BlameKind kind);  // "never_reached"

struct BlameFinding {
  BlameKind kind = BlameKind::kNone;
  std::vector<int64_t> ranks = {};  // the culprits; empty where all are equally concerned
  std::string group = {};           // "" where no collective is concerned
  uint64_t sequence = 0;
  std::string operation = {};
  std::string text = {};                  // one sentence
  std::vector<std::string> details = {};  // one sentence each
};

// Where one rank stood.
struct BlameRank {
  int64_t rank = 0;
  bool has_dump = false;
  std::string host = {}, reason = {};
  int64_t pid = 0;
  std::optional<FlightEntry> last_finished = {}, waits_in = {};  // the oldest collective that has not finished
};

// How long after the first rank of its host a rank called the collectives they had in common.
struct BlameLateness {
  int64_t rank = 0;
  size_t num_collectives = 0;
  double median_ms = 0, p90_ms = 0;
  double last_share = 0;  // the part of them in which it came last
};

struct Blame {
  std::string run_id = {};
  int64_t world = 0;
  BlameFinding verdict = {};                // the weightiest finding, or kNone
  std::vector<BlameFinding> findings = {};  // all of them, the verdict first
  std::vector<BlameRank> ranks = {};
  std::vector<BlameLateness> lateness = {};  // empty where no two ranks share a host
  std::vector<std::string> advice = {};
};

// Requires: dumps of one run, each rank at most once, as read_flight_dumps returns them; at least one.
Blame find_blame(const std::vector<FlightDump>& dumps);

// The verdict, a table of the ranks, the details.
std::string blame_text(const Blame& blame, const Terminal& terminal);
std::string blame_json(const Blame& blame);
// The last collectives as columns, the ranks as lanes, the culprits marked. Needs the dumps for what each rank did.
std::string blame_svg(const Blame& blame, const std::vector<FlightDump>& dumps);

}  // namespace weft
