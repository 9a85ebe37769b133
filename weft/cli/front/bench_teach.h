// `weft bench comm --teach`: every collective of weft/sim, step by step, on the terminal, as JSON and as pictures.
#pragma once

#include <string>
#include <vector>

#include "weft/cli/front/bench_options.h"
#include "weft/monitor/terminal.h"

namespace weft::cli {

// Prints, and draws where asked. Returns the exit code; throws Error.
int teach_collectives(const BenchCommOptions& options);

// The pieces. Requires for the last two: a schedule for each of sim::kAllAlgorithms, in that order.
std::string teach_schedule_text(const sim::Schedule& schedule, config::Language language, const Terminal& terminal);
std::string teach_comparison_text(const std::vector<sim::Schedule>& all, config::Language language,
                                  const Terminal& terminal);
std::string teach_json(const std::vector<sim::Schedule>& all);

// 900 pixels wide, light, standing alone.
std::string teach_schedule_svg(const sim::Schedule& schedule, config::Language language);
std::string teach_comparison_svg(const std::vector<sim::Schedule>& all, config::Language language);

}  // namespace weft::cli
