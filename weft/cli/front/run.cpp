#include <cstdio>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/cli/front/command.h"
#include "weft/cli/front/run_options.h"
#include "weft/launcher/supervisor.h"

namespace weft::cli {
namespace {

// The ranks have done their work: a report that cannot be written must not hide how they ended.
bool try_write_json(const std::string& path, const launcher::RunResult& result) {
  try {
    if (!path.empty()) write_file(Env::posix(), path, bytes_of(launcher::to_json(result)));
    return true;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return false;
  }
}

}  // namespace

int run_run(const Arguments& arguments) {
  const auto options = parse_run_options(arguments);
  if (!options) return 0;
  const launcher::RunResult result = launcher::supervise(options->launch);
  const bool written = try_write_json(options->json_path, result);
  std::fputs(result.last_words.c_str(), stderr);
  return result.exit_code == 0 && !written ? 1 : result.exit_code;
}

}  // namespace weft::cli
