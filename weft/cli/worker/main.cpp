#include <c10/util/Exception.h>

#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/cli/front/bench_options.h"
#include "weft/cli/front/guard.h"
#include "weft/cli/front/train_options.h"
#include "weft/cli/worker/bench_comm.h"
#include "weft/cli/worker/train.h"

namespace {

int run_train(const std::vector<std::string>& arguments) {
  const auto options = weft::cli::parse_train_options(arguments);
  try {
    return options ? weft::cli::train(*options) : 0;
  } catch (const c10::OutOfMemoryError& error) {
    throw weft::Error(weft::ErrorKind::kEnvironment, {.title = "the device is out of memory",
                                                      .what = error.what_without_backtrace(),
                                                      .where = options->device,
                                                      .fix = "a smaller --micro-batch, --seq, --dim or --layers"});
  }
}

int run_bench_comm(const std::vector<std::string>& arguments) {
  const auto options = weft::cli::parse_bench_comm_options(arguments);
  return options ? weft::cli::bench_comm(*options) : 0;
}

int dispatch(const std::vector<std::string>& words) {
  const std::string command = words.empty() ? "" : words.front();
  const std::vector<std::string> arguments(words.begin() + (words.empty() ? 0 : 1), words.end());
  try {
    if (command == "train") return run_train(arguments);
    if (command == "bench-comm") return run_bench_comm(arguments);
  } catch (const c10::Error& error) {
    throw weft::Error(weft::ErrorKind::kEnvironment,
                      {.title = "torch ended the run", .what = error.what_without_backtrace(), .where = "", .fix = ""});
  }
  throw weft::Error(weft::ErrorKind::kInput, {.title = "weft-worker is started by weft, not by hand",
                                              .what = "",
                                              .where = "",
                                              .fix = "weft train, weft bench comm"});
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  return weft::cli::guarded([&] { return dispatch(words); });
}
