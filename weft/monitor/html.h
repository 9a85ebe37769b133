// Text on its way into HTML or SVG. Free functions, any thread, no failure.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// Safe between tags and inside quoted attributes, in HTML and in XML: the five marks are escaped, damaged UTF-8 and
// control characters (other than tab and line end) become U+FFFD.
std::string escape_html(std::string_view text);

}  // namespace weft
