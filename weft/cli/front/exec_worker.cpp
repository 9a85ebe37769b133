#include "weft/cli/front/exec_worker.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/launcher/rank_environment.h"

namespace weft::cli {
namespace {

namespace fs = std::filesystem;

fs::path find_worker() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const auto& candidate : {here / "weft-worker", here / "../libexec/weft/weft-worker"}) {
    if (fs::exists(candidate)) return candidate;
  }
  throw Error(ErrorKind::kEnvironment, {.title = "weft-worker is missing",
                                        .what = "the half of weft that links libtorch was not built or not installed",
                                        .where = here.string(),
                                        .fix = "build with torch (make), or install again (cmake --install)"});
}

[[noreturn]] void become(std::vector<std::string> words, std::string_view doing) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(stdout);
  ::execv(words.front().c_str(), argv.data());
  throw IoError(doing, words.front(), errno);
}

}  // namespace

void exec_worker(const std::string& command, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {find_worker().string(), command};
  words.insert(words.end(), arguments.begin(), arguments.end());
  ::setenv(launcher::kMemoryVariable, launcher::kMemoryKept, /*overwrite=*/0);
  become(std::move(words), "start weft-worker");
}

void exec_ranks(const RanksToStart& ranks, const std::vector<std::string>& words) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  std::vector<std::string> all = {self, "run", "-n", cat(ranks.count), "--no-prefix"};
  if (ranks.threads > 0) all.insert(all.end(), {"--threads", cat(ranks.threads)});
  if (ranks.restarts > 0) all.insert(all.end(), {"--restarts", cat(ranks.restarts), "--resume"});
  all.insert(all.end(), {"--", self});
  all.insert(all.end(), words.begin(), words.end());
  become(std::move(all), "start the ranks");
}

}  // namespace weft::cli
