#include "weft/base/build_info.h"
#include "weft/base/error.h"
#include "weft/comm/c10d/nccl_group.h"

namespace weft::comm {

bool has_nccl() { return false; }

std::shared_ptr<Group> make_nccl_group(const GroupIdentity& /*self*/, const Store& /*store*/, int /*device*/,
                                       Deadline /*join_deadline*/) {
  throw Error(ErrorKind::kEnvironment,
              {.title = "this build of weft has no nccl",
               .what = kNcclWhy[0] == '\0' ? "it was built with a torch that has none" : kNcclWhy,
               .fix = "build weft with a torch for CUDA, or use gloo: it takes CUDA tensors too"});
}

}  // namespace weft::comm
