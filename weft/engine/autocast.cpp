#include "weft/engine/autocast.h"

#include <ATen/autocast_mode.h>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft {
namespace {

void check(c10::ScalarType dtype) {
  if (dtype == c10::ScalarType::Half || dtype == c10::ScalarType::BFloat16) return;
  throw Error(ErrorKind::kInput, {.title = "autocast needs a narrow type",
                                  .what = cat("it was given ", c10::toString(dtype)),
                                  .where = "",
                                  .fix = "give it at::kBFloat16 or at::kHalf"});
}

}  // namespace

Autocast::Autocast(c10::DeviceType device, c10::ScalarType dtype, bool enabled) : device_(device) {
  check(dtype);
  was_enabled_ = at::autocast::is_autocast_enabled(device);
  old_dtype_ = at::autocast::get_autocast_dtype(device);
  // What may throw, for a device without autocast, before anything that must be undone.
  at::autocast::set_autocast_dtype(device, dtype);
  at::autocast::set_autocast_enabled(device, enabled);
  at::autocast::increment_nesting();
  active_ = true;
}

Autocast::~Autocast() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, old_dtype_);
}

}  // namespace weft
