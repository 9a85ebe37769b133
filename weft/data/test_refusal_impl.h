// For this room's tests: the text of the Error that a call throws.
#pragma once

#include <string>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::data {

// One with another exit code, or none at all, comes back as a title that no test expects.
template <typename Call>
ErrorText refusal_of(Call call, int exit_code = 2) {
  try {
    call();
  } catch (const Error& error) {
    if (error.exit_code() == exit_code) return error.text();
    return {
        .title = cat("exit code ", error.exit_code(), ": ", error.text().title), .what = "", .where = "", .fix = ""};
  }
  return {.title = "nothing was refused", .what = "", .where = "", .fix = ""};
}

}  // namespace weft::data
