// A strict walk over UTF-8 text that may be damaged: titles, paths and labels come from users and files.
//
// Free functions, no state, any thread. Nothing fails: a byte that belongs to no valid character comes back on its own,
// marked as such, and the caller decides what stands in for it.
#pragma once

#include <string_view>

namespace weft {

struct CodePoint {
  std::string_view bytes;  // 1 to 4 bytes of the text
  char32_t value;          // U+FFFD when not valid
  bool valid;              // false: one stray byte, an overlong form, a surrogate, or past U+10FFFF
};

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Removes the first character of `rest` and returns it. Requires: rest is not empty.
CodePoint take_code_point(std::string_view& rest);

// C0, DEL and C1: they move the cursor or worse, and no text of ours needs them.
inline bool is_control(char32_t value) { return value < 0x20 || (value >= 0x7F && value <= 0x9F); }

}  // namespace weft
