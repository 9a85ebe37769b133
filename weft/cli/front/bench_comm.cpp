#include "weft/cli/front/bench_comm.h"

#include <cstdlib>

#include "weft/cli/front/exec_worker.h"

namespace weft::cli {

void run_bench_comm(const BenchCommOptions& options, const std::vector<std::string>& arguments) {
  if (std::getenv("RANK") != nullptr) exec_worker("bench-comm", arguments);
  std::vector<std::string> words = {"bench", "comm"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  exec_ranks({.count = options.num_ranks, .threads = options.threads}, words);
}

}  // namespace weft::cli
