// What code under test refuses to do, for tests that look at the words.
#pragma once

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

}  // namespace weft::test
