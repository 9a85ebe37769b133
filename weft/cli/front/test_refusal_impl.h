// For this room's tests: the message with which a parser of flags refuses words.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/base/error.h"

namespace weft::cli {

// The whole message; "" when `parse` accepts the words.
template <typename Parse>
std::string refusal(Parse parse, const std::vector<std::string>& words) {
  try {
    parse(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "";
}

}  // namespace weft::cli
