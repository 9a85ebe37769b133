// For this room's tests: what the command line says of a run.
#pragma once

#include "weft/config/reading.h"

namespace weft::doctor {

inline config::Facts world(int64_t ranks) { return {{"world", config::int_fact(ranks, "--world")}}; }

}  // namespace weft::doctor
