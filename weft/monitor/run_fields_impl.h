// Values taken out of JSON that may hold anything. Free functions, any thread, no failure: what is not there, or is of
// another type, comes back as not known.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "weft/monitor/run_files.h"

namespace weft::detail {

using Json = nlohmann::json;

// Null where there is none.
const Json& field_of(const Json& object, const char* key);
// NaN where it is no number.
double number_of(const Json& object, const char* key);
// Whole numbers that fit; else `otherwise`.
int64_t whole_of(const Json& object, const char* key, int64_t otherwise);
// At most kMaxTextBytes of it; "" where it is no string.
std::string text_of(const Json& object, const char* key);
std::string shortened(std::string text);

RunResult result_from(const Json& root);
RunRanks ranks_from(const Json& root, const RunLimits& limits);
RunSettings settings_from(const Json& root, const RunLimits& limits);
RunTimeline timeline_from(const Json& root, const RunLimits& limits);
RunFlops flops_from(const Json& root, const RunLimits& limits);

}  // namespace weft::detail
