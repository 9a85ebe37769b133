// What the record of a run (monitor/run_record.h, result.json) says of the engine that it trains with.
//
// Pure functions over the engine, on the thread that trains. Failure: none.
#pragma once

#include "weft/engine/engine.h"
#include "weft/monitor/run_record.h"

namespace weft::engine {

// Name, data, seed and tokens are the caller's to fill in.
RunFacts facts_at_start(const Engine& engine);
// The status, and what else the monitor counted, too. Requires: the parts of steps are there, where they were measured.
void add_facts_at_end(RunFacts& facts, const Engine& engine, int64_t num_steps);

}  // namespace weft::engine
