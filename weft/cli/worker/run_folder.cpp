#include "weft/cli/worker/run_folder.h"

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/base/units.h"

namespace weft::cli {
namespace {

// A report with its curve is a few hundred kilobytes; the rest is room for the result and the file system itself.
constexpr uint64_t kNeededBytes = 4 << 20;

void check_space(Env& env, const std::string& folder) {
  const uint64_t free_bytes = env.free_bytes(folder);
  if (free_bytes >= kNeededBytes) return;
  throw Error(ErrorKind::kEnvironment,
              {.title = "no disk space for the run folder",
               .what = cat(format_bytes(free_bytes), " free, a run takes up to ", format_bytes(kNeededBytes)),
               .where = folder,
               .fix = cat("free some space there (df -h ", folder, "), or give --runs another folder")});
}

std::string unused(Env& env, const std::string& wanted) {
  std::string path = wanted;
  for (int number = 2; env.stat(path); ++number) path = cat(wanted, "-", number);
  return path;
}

}  // namespace

RunFolder::RunFolder(Env& env, const std::string& runs, const std::string& name) : env_(env) {
  env.make_folders(runs);
  check_space(env, runs);
  path_ = unused(env, cat(runs, "/", name.empty() ? file_stamp() : name));
  env.make_folders(path_);
}

void RunFolder::write(const std::string& name, const std::string& text) const {
  publish_file(env_, file(name), bytes_of(text));
}

}  // namespace weft::cli
