// "a, b, c", as messages list what is possible. Pure function, any thread, no failure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/text.h"

namespace weft::config {

inline std::string list_of(std::span<const std::string_view> words) {
  return join(std::vector<std::string>(words.begin(), words.end()), ", ");
}

}  // namespace weft::config
