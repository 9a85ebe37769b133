// For this room's tests: the text of the Error that a call throws.
#pragma once

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft::data {

template <typename Call>
ErrorText refusal_of(Call call, int exit_code = 2) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), exit_code);
    return error.text();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

}  // namespace weft::data
