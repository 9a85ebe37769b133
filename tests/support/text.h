// For tests that look into what was printed.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace weft::test {

inline bool has(std::string_view text, std::string_view piece) { return text.find(piece) != std::string_view::npos; }

// How often; pieces that overlap count once.
inline size_t count_of(std::string_view text, std::string_view piece) {
  size_t count = 0;
  for (size_t at = text.find(piece); at != std::string_view::npos; at = text.find(piece, at + piece.size())) ++count;
  return count;
}

// Without a terminal's escape sequences: each ends with its first letter.
inline std::string without_escapes(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\033') {
      out += text[i];
      continue;
    }
    while (i < text.size() && !std::isalpha(static_cast<unsigned char>(text[i]))) ++i;
  }
  return out;
}

}  // namespace weft::test
