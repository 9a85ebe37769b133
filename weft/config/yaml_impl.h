// What a plain YAML scalar means to PyYAML's safe_load (YAML 1.1). Internal to the room; free functions, any thread.
#pragma once

#include <string_view>

#include "weft/config/value.h"

namespace weft::config {

enum class YamlTag { kNull, kBool, kInt, kFloat, kString };

// The type PyYAML gives an unquoted scalar without a tag.
YamlTag resolve_plain(std::string_view text);

// The text as a value of that type. Throws ReadError at `span`: too large, not a number, or (an explicit tag) not of the
// type. Ints and floats stay what PyYAML makes them: 1.0 is a real here.
Value construct_scalar(YamlTag tag, const SourcePtr& source, Span span, std::string_view text);

// A number in PyYAML's eyes a string: an exponent without a dot or without a sign (1e8, 1.5e8).
bool is_exponent_string(std::string_view text);

}  // namespace weft::config
