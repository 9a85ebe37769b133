// The two ready-made configs, fitted to a world size and a GPU's memory. Pure, any thread.
#pragma once

#include <string>
#include <string_view>

#include "weft/doctor/rules/subject.h"

namespace weft::doctor {

enum class Preset { kStandard, kHighPerformance };

Preset parse_preset(std::string_view name);  // "standard", "high-performance"; throws Error(kInput)

// The config's text: commented, plain to a strict JSON reader once comments are dropped, and without a problem of its own.
std::string preset_text(Preset preset, int64_t world, const Machine& machine, config::Language language);

}  // namespace weft::doctor
