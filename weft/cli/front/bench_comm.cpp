#include "weft/cli/front/bench_comm.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/cli/front/exec_worker.h"

namespace weft::cli {
namespace {

[[noreturn]] void become(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(words.front().c_str(), argv.data());
  throw IoError("start the ranks", words.front(), errno);
}

}  // namespace

void run_bench_comm(const BenchCommOptions& options, const std::vector<std::string>& arguments) {
  if (std::getenv("RANK") != nullptr) exec_worker("bench-comm", arguments);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> words = {
      self, "run",   "-n",  cat(options.num_ranks), "--threads", cat(options.threads), "--no-prefix", "--",
      self, "bench", "comm"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  become(std::move(words));
}

}  // namespace weft::cli
