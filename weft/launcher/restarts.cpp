#include "weft/launcher/restarts.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>

#include "weft/base/clock.h"
#include "weft/base/log.h"
#include "weft/launcher/first_failure.h"

namespace weft::launcher {
namespace {

constexpr int kWrongUsage = 2;
constexpr int kLongestPauseS = 64;

bool may_restart(const LaunchSpec& spec, int attempt, const Outcome& outcome) {
  if (outcome.is_final || outcome.exit_code == 0 || spec.max_restarts == 0) return false;
  const bool is_usage = outcome.exit_code == kWrongUsage;
  if (is_usage) log_info("not started again: exit code 2 is wrong usage, and would come again");
  return !is_usage && attempt < spec.max_restarts;
}

// Waits before the next attempt: a port or a device may take a moment to come free. The signal that came meanwhile.
std::optional<int> back_off(const LaunchSpec& spec, int attempt, int seconds, SignalWatch& signals) {
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

}  // namespace

int Pauses::after(double attempt_s) {
  const bool got_going = attempt_s >= static_cast<double>(next_s_);
  const int out = got_going ? 1 : next_s_;
  next_s_ = std::min(2 * out, kLongestPauseS);
  return out;
}

RunResult run_with_restarts(const LaunchSpec& spec, SignalWatch& signals, const std::function<Outcome(int)>& attempt) {
  RunResult result{.world = spec.world()};
  Pauses pauses;
  for (int number = 0;; ++number) {
    const Stopwatch watch;
    Outcome outcome = attempt(number);
    const bool again = may_restart(spec, number, outcome);
    result.attempts.push_back(std::move(outcome.record));
    result.exit_code = outcome.exit_code;
    result.last_words = std::move(outcome.last_words);
    if (!again) return result;
    std::fputs(result.last_words.c_str(), stderr);
    result.last_words.clear();
    const auto number_of_signal = back_off(spec, number, pauses.after(watch.elapsed_s()), signals);
    if (!number_of_signal) continue;
    result.exit_code = exit_code_of({.code = 0, .signal = *number_of_signal});
    return result;
  }
}

}  // namespace weft::launcher
