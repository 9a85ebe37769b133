#include "weft/base/error.h"
#include "weft/comm/c10d/gloo_wire.h"

namespace weft::comm {

std::unique_ptr<Wire> make_gloo_wire(const GroupIdentity& /*self*/, const Store& /*store*/, RollCall& /*roll_call*/,
                                     Deadline /*deadline*/) {
  throw Error(ErrorKind::kEnvironment, {.title = "this build of weft has no gloo",
                                        .what = "the torch it was built with was compiled without it",
                                        .fix = "build weft with a torch from PyPI, or use another transport"});
}

}  // namespace weft::comm
