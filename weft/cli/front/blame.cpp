#include "weft/monitor/blame.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/cli/front/command.h"
#include "weft/cli/front/flags.h"
#include "weft/monitor/flight_dump.h"

namespace weft::cli {
namespace {

// A folder that is not there and a file without permission are bad input to this command, not a failure of its work.
std::vector<FlightDump> read_dumps(const std::string& folder) {
  try {
    return read_flight_dumps(Env::posix(), folder);
  } catch (const IoError& error) {
    throw Error(ErrorKind::kInput, error.text());
  }
}

}  // namespace

int run_blame(const Arguments& arguments) {
  std::string folder, svg_path;
  bool json = false;
  auto app = make_app("blame",
                      "Find the rank to blame for a run that hung or failed: join the flight recorder dumps\n"
                      "(flight.rank_N.json) that its ranks left in DIR.",
                      "weft blame runs/mine/flight --svg blame.svg\n"
                      "Exit codes: 0 nothing differs, 1 something was found, 2 no dumps there or an unreadable one.");
  app->add_option("DIR", folder, "folder of the dumps")->required()->type_name("");
  app->add_flag("--json", json, "print JSON");
  app->add_option("--svg", svg_path, "also draw the last collectives of each rank")->type_name("FILE");
  if (!parse_flags(*app, arguments)) return 0;
  const auto dumps = read_dumps(folder);
  const Blame blame = find_blame(dumps);
  if (!svg_path.empty()) write_file(Env::posix(), svg_path, bytes_of(blame_svg(blame, dumps)));
  const std::string report = json ? blame_json(blame) : blame_text(blame, detect_terminal(STDOUT_FILENO));
  std::fputs(report.c_str(), stdout);
  return blame.verdict.kind == BlameKind::kNone ? 0 : 1;
}

}  // namespace weft::cli
