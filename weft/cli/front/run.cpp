#include <cstdio>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/cli/front/command.h"
#include "weft/cli/front/run_options.h"
#include "weft/launcher/agent.h"
#include "weft/launcher/hosts_supervisor.h"
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
  // Not for people: what --hosts starts on each host.
  if (arguments == Arguments{"--agent"}) return launcher::run_agent();
  const auto options = parse_run_options(arguments);
  if (!options) return 0;
  const auto result =
      options->hosts ? launcher::supervise_hosts(*options->hosts) : launcher::supervise(options->launch);
  const bool written = try_write_json(options->json_path, result);
  std::fputs(result.last_words.c_str(), stderr);
  return result.exit_code == 0 && !written ? 1 : result.exit_code;
}

}  // namespace weft::cli
