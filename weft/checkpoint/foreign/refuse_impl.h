// One sentence for all that this room refuses.
#pragma once

#include <string>
#include <utility>

#include "weft/base/error.h"

namespace weft::checkpoint::foreign {

[[noreturn]] inline void refuse(
    std::string what, std::string where,
    std::string fix = "the file is damaged or was not written by torch.save; use another copy") {
  throw Error(ErrorKind::kInput, {.title = "not a file of torch.save that can be read",
                                  .what = std::move(what),
                                  .where = std::move(where),
                                  .fix = std::move(fix)});
}

}  // namespace weft::checkpoint::foreign
