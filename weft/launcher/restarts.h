// Attempts, one after another: after a failure another one, as often as was asked for, with a growing pause between.
//
// Threads: one. Failure: as the attempts.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "weft/launcher/launch_spec.h"
#include "weft/launcher/run_result.h"
#include "weft/launcher/signal_watch.h"

namespace weft::launcher {

struct Outcome {
  AttemptResult record = {};
  int exit_code = 0;
  std::string last_words = {};
  bool is_final = false;  // another attempt makes no sense: somebody asked for the end, or it would fail again
};

// How long to wait before another attempt: 1 s, then twice as long each time, up to 64 s; but 1 s again after an attempt that lasted at least as
// long as the wait would be. So a program that cannot start is not started in a tight loop, and one that trains and fails now and
// then does not stand still longer than it runs.
class Pauses {
 public:
  int after(double attempt_s);

 private:
  int next_s_ = 1;
};

RunResult run_with_restarts(const LaunchSpec& spec, SignalWatch& signals, const std::function<Outcome(int)>& attempt);

}  // namespace weft::launcher
