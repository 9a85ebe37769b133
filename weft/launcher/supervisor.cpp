#include "weft/launcher/supervisor.h"

#include "weft/base/log.h"
#include "weft/launcher/attempt.h"
#include "weft/launcher/copies_folder.h"
#include "weft/launcher/descendants.h"
#include "weft/launcher/port.h"
#include "weft/launcher/preflight.h"
#include "weft/launcher/restarts.h"

namespace weft::launcher {
namespace {

int port_of(const LaunchSpec& spec) {
  if (spec.master_port) return *spec.master_port;
  return spec.num_hosts > 1 ? kDefaultMasterPort : free_port();
}

int exit_code_after(const Attempt& attempt, const std::optional<Failure>& failure) {
  if (failure) return exit_code_of(*failure->end.status);
  return attempt.interrupted_by() ? exit_code_of({.code = 0, .signal = *attempt.interrupted_by()}) : 0;
}

Outcome run_attempt(const LaunchSpec& spec, int number, SignalWatch& signals) {
  Attempt attempt(spec, number, port_of(spec), signals);
  attempt.run();
  const auto failure = attempt.failure();
  Outcome outcome{.record = {.ranks = attempt.ends()},
                  .exit_code = exit_code_after(attempt, failure),
                  .last_words = failure ? describe(*failure) : "",
                  .is_final = attempt.interrupted_by().has_value()};
  if (failure) outcome.record.first_failure = failure->end.rank;
  return outcome;
}

}  // namespace

RunResult supervise(const LaunchSpec& spec) {
  check_launch(spec);
  warn_of_outer_launcher(spec);
  const CopiesFolder copies(spec);
  SignalWatch signals;
  const Subreaper subreaper;
  const auto result = run_with_restarts(spec, signals, [&](int number) { return run_attempt(spec, number, signals); });
  if (!spec.log_dir.empty()) log_info("what the ranks printed is in ", spec.log_dir, "/rank_*.attempt_*.log");
  return result;
}

}  // namespace weft::launcher
