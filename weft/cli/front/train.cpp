#include "weft/cli/front/command.h"
#include "weft/cli/front/exec_worker.h"
#include "weft/cli/front/train_options.h"

namespace weft::cli {

int run_train(const Arguments& arguments) {
  // Parsed here only to refuse mistakes before libtorch is loaded.
  if (!parse_train_options(arguments)) return 0;
  exec_worker("train", arguments);
}

}  // namespace weft::cli
