#include <cstdlib>

#include "weft/cli/front/command.h"
#include "weft/cli/front/exec_worker.h"
#include "weft/cli/front/train_config.h"
#include "weft/cli/front/train_options.h"

namespace weft::cli {

int run_train(const Arguments& arguments) {
  // Parsed here to refuse mistakes before libtorch is loaded, or before many ranks say the same.
  const auto options = parse_train_options(arguments);
  if (!options) return 0;
  // Of a rank that somebody else started (torchrun, Slurm, mpirun) the worker knows the world.
  const bool needs_launcher = options->ranks > 1 || options->restarts > 0;
  if (!needs_launcher || std::getenv("RANK") != nullptr) exec_worker("train", arguments);
  train_config(*options, static_cast<int>(options->ranks));
  std::vector<std::string> words = {"train"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  exec_ranks({.count = options->ranks, .threads = options->threads, .restarts = options->restarts}, words);
}

}  // namespace weft::cli
