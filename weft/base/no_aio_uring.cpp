// Stands in for aio_uring.cpp where liburing is not installed.
#include "weft/base/aio_impl.h"

namespace weft::detail {

std::unique_ptr<AsyncIo> make_uring_aio(const AsyncOptions&, std::string& why_not) {
  why_not = "this build of weft has no io_uring (liburing was not there when it was configured)";
  return nullptr;
}

}  // namespace weft::detail
