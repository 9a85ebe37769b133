#include "weft/cli/front/guard.h"

#include <cstdio>
#include <new>

#include "weft/base/error.h"

namespace weft::cli {

int guarded(const std::function<int()>& body) {
  try {
    const int code = body();
    // A full disk or a closed pipe shows only when the buffer is flushed.
    if (std::fflush(stdout) == 0) return code;
    std::fprintf(stderr, "error: cannot write to standard output\n");
  } catch (const Error& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "error: out of memory\n  do:    a smaller model (--dim, --layers) or batch (--micro-batch)\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return 1;
}

}  // namespace weft::cli
