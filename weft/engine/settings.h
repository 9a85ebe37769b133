// What of a config the engine reads, in the engine's own terms. Pure functions. Failure: Error(kInput).
#pragma once

#include <vector>

#include "weft/config/resolved.h"
#include "weft/engine/reducer.h"
#include "weft/plan/agreement.h"

namespace weft::engine {

// Refuses what this version does not do, rather than doing something else.
void check_supported(const config::Resolved& config);
void check_types(const plan::ParameterTable& table);

ReduceSettings reduce_settings(const config::Resolved& config, const plan::Plan& plan);

// What must be equal on all ranks beside the plan.
std::vector<plan::SharedSetting> shared_settings(const config::Resolved& config);

}  // namespace weft::engine
