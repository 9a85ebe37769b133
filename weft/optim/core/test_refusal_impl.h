// For this room's tests: arguments from their text, and what is said of those that are refused.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "weft/base/error.h"
#include "weft/config/hjson.h"

namespace weft::optim {

inline config::Value params_of(std::string_view text) {
  return config::parse_hjson(std::make_shared<const config::Source>("params", std::string(text)));
}

// The whole message; "(none)" when nothing is refused.
inline std::string refusal_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "(none)";
}

struct RefusedParams {
  std::string_view type, params, said;
};

}  // namespace weft::optim
