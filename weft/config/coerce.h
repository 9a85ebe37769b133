// Turns what a file says into a setting's type, the way DeepSpeed's models (pydantic, lax mode) do: "500" and 500.0 are
// integers, 1 and "yes" are true, 2 is not. Plain sections take no text for a number or a switch. Pure functions, any thread.
#pragma once

#include <optional>

#include "weft/config/setting.h"
#include "weft/config/value.h"

namespace weft::config {

// The value in the setting's canonical form (an enum in its own case, a dtype as fp16/bf16/fp32, a float as kReal), with the
// span of the original; nothing when it cannot be converted. The range is not looked at. Requires: not "auto".
std::optional<Value> coerce(const Setting& setting, const Value& value);

// The default of that version, in canonical form.
Value default_value(const Setting& setting, Version version);

// Python's float(): for texts such as "2e8" that a person meant as a number. Nothing for inf and nan.
std::optional<double> float_of_text(std::string_view text);

}  // namespace weft::config
