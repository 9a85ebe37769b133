#include "weft/launcher/supervisor.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/launcher/attempt.h"
#include "weft/launcher/descendants.h"
#include "weft/launcher/port.h"
#include "weft/launcher/preflight.h"

namespace weft::launcher {
namespace {

constexpr int kWrongUsage = 2;
constexpr int kMaxBackoffDoublings = 6;

int port_of(const LaunchSpec& spec) {
  if (spec.master_port) return *spec.master_port;
  return spec.num_hosts > 1 ? kDefaultMasterPort : free_port();
}

AttemptResult record_of(const Attempt& attempt, const std::optional<Failure>& failure) {
  AttemptResult out{.ranks = attempt.ends()};
  if (failure) out.first_failure = failure->end.rank;
  return out;
}

bool may_restart(const LaunchSpec& spec, int attempt, const Attempt& ended, int exit_code) {
  if (ended.interrupted_by() || exit_code == 0 || spec.max_restarts == 0) return false;
  if (exit_code == kWrongUsage) log_info("not started again: exit code 2 is wrong usage, and would come again");
  return exit_code != kWrongUsage && attempt < spec.max_restarts;
}

// Waits before the next attempt: a port or a device may take a moment to come free. The signal that came meanwhile.
std::optional<int> back_off(const LaunchSpec& spec, int attempt, SignalWatch& signals) {
  const int seconds = 1 << std::min(attempt, kMaxBackoffDoublings);
  log_info("starting all ranks again in ", seconds, " s (restart ", attempt + 1, " of ", spec.max_restarts, ")");
  const Deadline deadline = Deadline::after(static_cast<double>(seconds));
  while (!deadline.expired()) {
    pollfd watched{.fd = signals.fd(), .events = POLLIN, .revents = 0};
    ::poll(&watched, 1, deadline.poll_ms());
    while (const auto number = signals.take()) {
      if (*number != SIGCHLD) return number;
    }
  }
  return std::nullopt;
}

int exit_code_after(const Attempt& attempt, const std::optional<Failure>& failure) {
  if (failure) return exit_code_of(*failure->end.status);
  return attempt.interrupted_by() ? exit_code_of({.code = 0, .signal = *attempt.interrupted_by()}) : 0;
}

// True when there should be another.
bool run_attempt(const LaunchSpec& spec, int number, SignalWatch& signals, RunResult& result) {
  Attempt attempt(spec, number, port_of(spec), signals);
  attempt.run();
  const auto failure = attempt.failure();
  result.attempts.push_back(record_of(attempt, failure));
  result.exit_code = exit_code_after(attempt, failure);
  result.last_words = failure ? describe(*failure) : "";
  return may_restart(spec, number, attempt, result.exit_code);
}

}  // namespace

RunResult supervise(const LaunchSpec& spec) {
  check_launch(spec);
  warn_of_outer_launcher(spec);
  SignalWatch signals;
  const Subreaper subreaper;
  RunResult result{.world = spec.world()};
  for (int attempt = 0; run_attempt(spec, attempt, signals, result); ++attempt) {
    std::fputs(result.last_words.c_str(), stderr);
    result.last_words.clear();
    if (const auto number = back_off(spec, attempt, signals)) {
      result.exit_code = exit_code_of({.code = 0, .signal = *number});
      break;
    }
  }
  if (!spec.log_dir.empty()) log_info("what the ranks printed is in ", spec.log_dir, "/rank_*.attempt_*.log");
  return result;
}

std::string to_json(const RunResult& result) {
  nlohmann::ordered_json out{{"schema", 1}, {"world", result.world}, {"attempts", nlohmann::ordered_json::array()}};
  for (const auto& attempt : result.attempts) {
    nlohmann::ordered_json ranks = nlohmann::ordered_json::array(), first;
    for (const auto& end : attempt.ranks) {
      nlohmann::ordered_json code, signal;
      if (end.status->signal == 0) code = end.status->code;
      if (end.status->signal != 0) signal = end.status->signal;
      ranks.push_back(
          {{"rank", end.rank}, {"pid", end.pid}, {"exit", code}, {"signal", signal}, {"seconds", end.seconds}});
    }
    if (attempt.first_failure) first = *attempt.first_failure;
    out["attempts"].push_back({{"ranks", ranks}, {"first_failure", first}});
  }
  out["exit"] = result.exit_code;
  return out.dump(2) + "\n";
}

}  // namespace weft::launcher
