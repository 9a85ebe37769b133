#include "weft/monitor/file_time.h"

#include <sys/stat.h>

#include <utility>

#include "weft/base/error.h"

namespace weft {

double modified_unix_s(const File& file) {
  struct stat info{};
  if (file.fd() < 0 || ::fstat(file.fd(), &info) != 0) return 0;
  return static_cast<double>(info.st_mtim.tv_sec) + static_cast<double>(info.st_mtim.tv_nsec) * 1e-9;
}

double modified_unix_s(Env& env, const std::string& path) {
  try {
    return modified_unix_s(*env.open(path, OpenMode::kRead));
  } catch (const Error&) {
    return 0;
  }
}

void SeenChange::look(double modified_unix_s, bool changed, double now_unix_s) {
  const bool is_first = looked_s_ == 0;
  const double looked_s = std::exchange(looked_s_, now_unix_s);
  if (std::exchange(modified_s_, modified_unix_s) == modified_unix_s && !changed && !is_first) return;
  const bool is_likely = modified_unix_s > (is_first ? 0 : looked_s) && modified_unix_s <= now_unix_s;
  at_s_ = is_likely ? modified_unix_s : now_unix_s;
}

}  // namespace weft
