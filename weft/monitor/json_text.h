// JSON written piece by piece, where building a tree for each of a million lines would cost more than the line. Whole
// documents are nlohmann's.
//
// Free functions, no state, no locale, any thread, no failure.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// The text in quotes. Marks and control characters are escaped, damaged UTF-8 becomes U+FFFD: whatever the bytes, the
// result is valid JSON.
void append_json_string(std::string& out, std::string_view text);

// The shortest form that reads back as the same number; null for what JSON has no word for (NaN, infinity).
void append_json_number(std::string& out, double value);

}  // namespace weft
