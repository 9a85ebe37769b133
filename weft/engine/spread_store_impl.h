// What saving and loading a spread store say to the other ranks. For this room.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/text.h"

namespace weft::engine {

inline constexpr char kFailed = '!';  // before what a rank says went wrong

// What the work returns, or why it could not be done.
template <typename Work>
std::string said_by(const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return cat(kFailed, error.what());
  }
}

// One rank's trouble is everybody's.
struct FailureText {
  std::string title = {}, what = {};  // "could not write its part", after the rank
  std::string where = {};
};
void throw_failures(const std::vector<std::string>& texts, const FailureText& failure);

// Letters and digits, drawn anew.
std::string new_id();

}  // namespace weft::engine
