// The steps of `weft check --symptom`, for a person or a program. Pure functions, any thread.
#pragma once

#include <string>
#include <vector>

#include "weft/doctor/rules/symptom.h"
#include "weft/monitor/terminal.h"

namespace weft::doctor {

// A numbered list.
std::string steps_text(const std::vector<Step>& steps, config::Language language, const Terminal& terminal);
// {"schema": 1, "symptom", "file", "steps": [{what, why, path, current, suggested}]}; `file` is null where it is empty.
std::string steps_json(std::string_view symptom, const std::string& file, const std::vector<Step>& steps,
                       config::Language language);

}  // namespace weft::doctor
