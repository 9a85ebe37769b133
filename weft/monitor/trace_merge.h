// Several ranks' traces (trace_writer.h) as one: a process row for each rank, on one clock.
//
// Ranks of one host read the same monotonic clock, so their files fit together as they are. Another host's clock has
// another zero, and drifts: the files of a run on several hosts say how far theirs was from rank 0's (TraceWriter::add_clock).
// Which clock a file is by it says itself: hosts may have the same name.
//
// A file that a crash cut short is taken up to its last whole line. Memory: one line at a time.
//
// Free function, any thread. Failure: IoError; Error(kInput) with the file and the line for what is not a trace of ours,
// for a rank given twice, and for a host without an offset. The output is published whole or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/base/env.h"

namespace weft {

struct TraceSource {
  std::string path;
  // Added to this file's times instead of what it says itself.
  std::optional<int64_t> clock_offset_ns = {};
};

struct MergedTrace {
  uint64_t num_events = 0;                  // spans and counter values
  std::vector<std::string> cut_short = {};  // files without their end
};

MergedTrace merge_traces(Env& env, std::span<const TraceSource> sources, const std::string& out_path);

// The files trace.rank_N.json of a folder, by rank.
std::vector<TraceSource> traces_in(Env& env, const std::string& folder);

}  // namespace weft
