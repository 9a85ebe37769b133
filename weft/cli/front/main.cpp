#include <cstdio>
#include <string>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/cli/front/command.h"
#include "weft/cli/front/guard.h"

namespace weft::cli {
namespace {

void print_help() {
  std::printf(
      "weft weaves communication through computation: training on libtorch, in C++.\n"
      "\n"
      "usage: weft COMMAND [OPTIONS]\n"
      "\n"
      "commands:\n");
  for (const auto& command : commands()) std::printf("  %-10s %s\n", command.name, command.summary);
  std::printf(
      "\n"
      "example:\n"
      "  weft train                       one minute on Python's own library\n"
      "  weft train --data my_texts/ --steps 500 --json result.json\n"
      "  weft run -n 4 -- python3 train.py\n"
      "  weft check ds_config.json        what DeepSpeed would make of it, and what is wrong\n"
      "\n"
      "weft COMMAND --help says more. Exit codes: 0 fine, 1 the work failed, 2 wrong usage or bad input.\n");
}

int unknown_command(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& command : commands()) names.emplace_back(command.name);
  const std::string meant = nearest(name, names);
  throw Error(ErrorKind::kInput,
              {.title = cat("there is no command '", name, "'"),
               .what = "",
               .where = "",
               .fix = meant.empty() ? "weft --help lists the commands" : cat("did you mean: weft ", meant)});
}

int dispatch(const Arguments& words) {
  if (words.empty()) {
    print_help();
    return 2;
  }
  const Arguments rest(words.begin() + 1, words.end());
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print_help();
    return 0;
  }
  if (words[0] == "--version") return run_version(rest);
  for (const auto& command : commands()) {
    if (words[0] == command.name) return command.run(rest);
  }
  return unknown_command(words[0]);
}

}  // namespace

}  // namespace weft::cli

int main(int argc, char** argv) {
  const weft::cli::Arguments words(argv + 1, argv + argc);
  return weft::cli::guarded([&] { return weft::cli::dispatch(words); });
}
