// No step updates the weights any more: gradients overflow at the smallest loss scale, or were not finite ten times in a row.
//
// step() throws it, on all ranks in the same step. Nothing is broken: weights and state are those of the last good update, so that
// they can be saved (optimizer_state()), and training may go on with another learning rate; the next hopeless step throws again.
#pragma once

#include <utility>

#include "weft/base/error.h"

namespace weft {

class GradientsLost : public Error {
 public:
  explicit GradientsLost(ErrorText text) : Error(ErrorKind::kEnvironment, std::move(text)) {}
};

}  // namespace weft
