// One attempt: the ranks from their start until none of them, and nothing they started, is left and all they printed is
// shown. The first failure ends all of them: they have a moment to notice and report it, then they are asked to end, and killed
// after the grace period. A signal to us does the same without the moment.
//
// Threads: one. Failure: as RankGroup; whatever is thrown, the ranks are ended.
#pragma once

#include <optional>
#include <vector>

#include "weft/base/clock.h"
#include "weft/launcher/agent_link.h"
#include "weft/launcher/first_failure.h"
#include "weft/launcher/launch_spec.h"
#include "weft/launcher/output_pump.h"
#include "weft/launcher/rank_group.h"
#include "weft/launcher/signal_watch.h"

namespace weft::launcher {

class Attempt {
 public:
  // Starts the ranks. An agent's attempt obeys the orders from its `link` as it does signals, and sends what happens in
  // frames; spec.is_agent says the same.
  Attempt(const LaunchSpec& spec, int number, int port, SignalWatch& signals, AgentLink* link = nullptr);

  void run();

  const std::vector<RankEnd>& ends() const { return group_.ends(); }
  std::optional<Failure> failure() const;
  // The first signal that asked us to end.
  std::optional<int> interrupted_by() const { return interrupted_by_; }

 private:
  void turn();
  void on_orders(const Orders& orders);
  void on_signal(int number);
  void on_ends(const std::vector<size_t>& ended);
  void send_failure();
  void on_deadline();
  void ask_to_end(int signal);
  void sweep();
  void say(const std::string& text);

  const LaunchSpec& spec_;
  const int number_;
  SignalWatch& signals_;
  AgentLink* const link_;
  OutputPump pump_;
  RankGroup group_;
  std::vector<pollfd> polled_;
  Deadline deadline_ = Deadline::never();  // of what is awaited now: the ranks' end, then the end of their pipes
  bool asked_to_end_ = false, hurry_ = false, swept_ = false;
  std::optional<size_t> first_failure_;  // its place in ends()
  std::optional<int> interrupted_by_;
};

}  // namespace weft::launcher
