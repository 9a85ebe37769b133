// How this room says that it cannot work with what it was given.
#pragma once

#include <string>
#include <utility>

#include "weft/base/error.h"

namespace weft::engine {

[[noreturn]] inline void refuse(std::string title, std::string what, std::string fix) {
  throw Error(ErrorKind::kInput,
              {.title = std::move(title), .what = std::move(what), .where = "", .fix = std::move(fix)});
}

}  // namespace weft::engine
