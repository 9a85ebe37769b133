// A LiveState in the text format of Prometheus (exposition format 0.0.4): what a scraper gets from /metrics.
//
// Units are Prometheus's own: seconds, bytes, shares of 1. A value that the run does not record has no line; a loss
// that is not a number is NaN. Pure function, any thread, no failure.
#pragma once

#include <string>

#include "weft/monitor/live/run_state.h"

namespace weft {

std::string prometheus_text(const LiveState& state);

}  // namespace weft
