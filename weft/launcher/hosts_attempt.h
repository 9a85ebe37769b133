// One attempt on several hosts: connect to all, start the ranks once all have answered, until every host has reported.
// The first rank to fail, a host that is lost, or a signal to us ends the ranks of all.
//
// Threads: one. Failure: as RemoteHost; whatever is thrown, the connections are closed and the agents end their ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/launcher/agent_job.h"
#include "weft/launcher/hosts_outcome.h"
#include "weft/launcher/hosts_spec.h"
#include "weft/launcher/output_pump.h"
#include "weft/launcher/remote_host.h"
#include "weft/launcher/signal_watch.h"

namespace weft::launcher {

class HostsAttempt {
 public:
  // Starts to connect.
  HostsAttempt(const HostsSpec& spec, int number, SignalWatch& signals);

  Outcome run();
  // Once it ran: those that did not answer, so that no rank was started anywhere. By their place in the spec.
  const std::vector<size_t>& away() const { return away_; }

 private:
  struct Place {
    RemoteHost host;
    std::optional<AgentReport> report = {};
    bool has_refused = false, counted = false;

    bool is_open() const { return !host.has_ended() && !report && !has_refused; }
  };

  void turn();
  void on_signal(int number);
  void on_frame(size_t index, const Frame& frame);
  void on_hello(size_t index, const Frame& frame);
  void on_failure(const RankEnd& end, const std::string& host);
  void on_report(size_t index, AgentReport report);
  void check_hosts();
  void on_deadline();
  void start_ranks();
  void beat();
  void trouble(const Error& error);
  void ask_to_end(int signal);
  bool all_closed() const;
  void close();
  void say(const std::string& text);

  const HostsSpec& spec_;
  SignalWatch& signals_;
  OutputPump pump_;
  std::vector<Place> places_;
  std::vector<pollfd> polled_;
  Deadline deadline_, next_beat_;
  size_t num_ready_ = 0;
  int port_ = 0;  // that the first host offers
  bool asked_to_end_ = false, hurry_ = false;
  Stopwatch since_failure_;
  HostsFacts facts_;
  std::vector<size_t> away_;
};

}  // namespace weft::launcher
