// What code under test refuses to do, for tests that look at the words.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "weft/base/error.h"

namespace weft::test {

// The title of the Error that `body` throws.
inline std::string title_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.text().title;
  }
  return "nothing was refused";
}

// The errno of the IoError that `body` throws; 0 when it throws none.
inline int code_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const IoError& error) {
    EXPECT_FALSE(error.text().where.empty());
    return error.code();
  }
  return 0;
}

}  // namespace weft::test
