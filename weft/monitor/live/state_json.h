// A LiveState and the curves as JSON, for the page and for `weft top HOST:PORT`; docs/watching.md has the fields.
//
// Pure functions, any thread. Failure: parse_state answers with an Error for text that is no such state.
#pragma once

#include <cstdint>
#include <string>

#include "weft/base/error.h"
#include "weft/monitor/live/run_state.h"
#include "weft/monitor/live/step_series.h"

namespace weft {

// One line, no line end; "schema" is 1. What is not finite is null.
std::string state_json(const LiveState& state);

// What is missing or of another kind stays at its default: a newer weft may serve.
Result<LiveState> parse_state(const std::string& text);

// The bins from the one that holds `from_step` on. `epoch` is the state's.
std::string series_json(const StepSeries& series, int64_t from_step, int64_t epoch);

}  // namespace weft
