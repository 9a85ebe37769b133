// Flight recorder dumps as files: flight.rank_3.json, one per rank, in one folder. docs/formats/flight_json.md describes
// the fields. On-disk: a field that is there keeps its name and its meaning under schema 1.
//
// Free functions, any thread. Failure: writing throws IoError; reading throws IoError, and Error(kInput) with the file
// and the place for everything a dump must not be. A dump may come from a crashing process or from elsewhere, so nothing
// in it is trusted.
#pragma once

#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/monitor/flight_recorder.h"

namespace weft {

inline constexpr int64_t kMaxFlightWorld = 1 << 20;

std::string flight_dump_path(const std::string& folder, int64_t rank);
std::string_view name_of(FlightState state);
bool is_point_to_point(const FlightEntry& entry);  // send and recv

std::string to_json(const FlightDump& dump);

// Makes the folder where it is missing, and publishes the file there.
void write_flight_dump(Env& env, const std::string& folder, const FlightDump& dump);

FlightDump read_flight_dump(Env& env, const std::string& path);

// All dumps of a folder, by rank; files with other names are left alone. An Error(kInput) when there is none, when two
// are of one rank, and when they are not of one run.
std::vector<FlightDump> read_flight_dumps(Env& env, const std::string& folder);

}  // namespace weft
