// The JSON of values and problems, shared by the reports. Included by .cpp files only: it brings nlohmann-json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "weft/doctor/rules/report_impl.h"

namespace weft::doctor {

using Json = nlohmann::ordered_json;  // keys stay in the order they were added

Json json_of(const config::Value& value);
// The setting's value; words in the place of a secret.
Json json_of(const config::Reading& reading, const config::Setting& setting);
// A problem with its place; `source` is what its span points into.
Json json_of(const config::Problem& problem, const config::Source& source, config::Language language);
Json json_of(const Good& good, const config::Source& source, config::Language language);
Json json_of(const Verdict& verdict);

// The text or, where there is none, null.
Json text_or_null(const std::string& text);

// Indented, with a line end; damaged UTF-8 becomes U+FFFD.
std::string dumped(const Json& json);

}  // namespace weft::doctor
