// JSON of files we do not trust, for this room's parsers: a key that stands twice, a nesting or a number of values beyond
// what the format has are refused while parsing, before they cost memory.
//
// Threads: pure functions. Failure: JsonFault with the words; the parser that knows the file makes an Error of it.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

namespace weft::checkpoint {

struct JsonFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct JsonLimits {
  int depth = 4;
  size_t values = 16'000'000;  // each takes 16 bytes and more, however short its text
};

nlohmann::json parse_strict_json(std::string_view text, const JsonLimits& limits);

}  // namespace weft::checkpoint
