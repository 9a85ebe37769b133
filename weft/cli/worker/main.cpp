#include <c10/util/Exception.h>

#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/cli/front/guard.h"
#include "weft/cli/front/train_options.h"
#include "weft/cli/worker/train.h"

namespace {

int dispatch(const std::vector<std::string>& words) {
  if (words.empty() || words[0] != "train") {
    throw weft::Error(
        weft::ErrorKind::kInput,
        {.title = "weft-worker is started by weft, not by hand", .what = "", .where = "", .fix = "weft train"});
  }
  const auto options = weft::cli::parse_train_options({words.begin() + 1, words.end()});
  try {
    return options ? weft::cli::train(*options) : 0;
  } catch (const c10::OutOfMemoryError& error) {
    throw weft::Error(weft::ErrorKind::kEnvironment, {.title = "the device is out of memory",
                                                      .what = error.what_without_backtrace(),
                                                      .where = options->device,
                                                      .fix = "a smaller --micro-batch, --seq, --dim or --layers"});
  } catch (const c10::Error& error) {
    throw weft::Error(weft::ErrorKind::kEnvironment,
                      {.title = "torch ended the run", .what = error.what_without_backtrace(), .where = "", .fix = ""});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  return weft::cli::guarded([&] { return dispatch(words); });
}
