#include <algorithm>
#include <cstdio>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/cli/front/bench_comm.h"
#include "weft/cli/front/bench_options.h"
#include "weft/cli/front/bench_teach.h"
#include "weft/cli/front/command.h"
#include "weft/cli/front/flags.h"

namespace weft::cli {
namespace {

void print_bench_help() {
  std::printf(
      "Measure the parts a run is made of.\n"
      "\n"
      "usage: weft bench comm [OPTIONS]\n"
      "\n"
      "  comm       collectives between ranks; --teach computes and draws how they work\n"
      "\n"
      "weft bench comm --help lists the flags.\n");
}

int run_comm(const Arguments& arguments) {
  const auto options = parse_bench_comm_options(arguments);
  if (!options) return 0;
  if (options->teach && !options->measured) return teach_collectives(*options);
  run_bench_comm(*options, arguments);
}

}  // namespace

int run_bench(const Arguments& arguments) {
  const std::string what = arguments.empty() ? "" : arguments.front();
  // There is one benchmark, so its flags are those to complete.
  if (what == kListWords) return run_comm(arguments);
  if (what == "comm") return run_comm({arguments.begin() + 1, arguments.end()});
  if (what == "--help" || what == "-h") {
    print_bench_help();
    return 0;
  }
  throw Error(ErrorKind::kInput,
              {.title = what.empty() ? "nothing to measure" : cat("weft bench does not know '", what, "'"),
               .what = "",
               .where = "",
               .fix = "weft bench comm measures collectives; weft bench --help says more"});
}

}  // namespace weft::cli
