// JSON on standard output, as the commands with --json print it.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace weft::cli {

// Indented, with a line end. Names come from files and may hold any bytes: damaged UTF-8 becomes U+FFFD.
void print_json(const nlohmann::ordered_json& json);

}  // namespace weft::cli
