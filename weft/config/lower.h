// ASCII lower case, as Python's keys and enum values need it. Locale plays no part.
#pragma once

#include <string>
#include <string_view>

namespace weft::config {

inline std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace weft::config
