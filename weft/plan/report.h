// A plan for people and for programs: text tables, and JSON.
//
//   std::cout << plan_text(plan);
//
// The text is ASCII but for the names of parameters, has no control characters but line ends, and ends with one.
// The JSON is an object with "schema": 1; docs/plan.md lists its fields. Fields may be added under the same number.
//
// Pure functions: any thread, no failure.
#pragma once

#include <string>

#include "weft/plan/plan.h"

namespace weft::plan {

// Buckets; memory of a rank at each stage; what a step sends.
std::string plan_text(const Plan& plan);

// On-disk: the meaning of a field never changes under one schema number.
std::string plan_json(const Plan& plan);

}  // namespace weft::plan
