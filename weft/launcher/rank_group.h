// The ranks of this host in one attempt: started together, each in a process group of its own that dies with us, and
// watched through the caller's poll loop.
//
// Threads: one; the ranks die with the thread that made the group. The destructor kills and reaps those that still run.
// Failure: IoError, or Error(kInput) when the program cannot be run; ranks that were started before are then ended.
#pragma once

#include <poll.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/process.h"
#include "weft/launcher/launch_spec.h"
#include "weft/launcher/output_pump.h"

namespace weft::launcher {

struct RankEnd {
  int rank = 0;
  pid_t pid = 0;
  std::optional<ExitStatus> status = {};  // nothing: still running
  double seconds = 0;                     // from its start to its end
  std::string host = {};                  // "": this one
};

// Where a rank's output goes with LaunchSpec::log_dir.
std::string log_path(const LaunchSpec& spec, int rank, int attempt);

class RankGroup {
 public:
  // The pump gets the ranks' pipes when spec.forwards_output().
  RankGroup(const LaunchSpec& spec, int attempt, int port, OutputPump& pump);

  // Appends one entry per rank; note_ends() takes exactly those back and returns the places in ends() of ranks that
  // ended since.
  void watch(std::vector<pollfd>& polled) const;
  std::vector<size_t> note_ends(std::span<const pollfd> polled);

  // To the ranks that still run and all they started.
  void signal(int number) const;
  // SIGKILL to every rank's group, also where the rank itself has ended.
  void kill() const;

  bool all_ended() const { return num_ended_ == ends_.size(); }
  const std::vector<RankEnd>& ends() const { return ends_; }
  std::vector<pid_t> pids() const;

 private:
  Process start(const LaunchSpec& spec, int local_rank, int attempt, int port) const;

  const std::vector<int> cpus_;
  std::vector<Process> processes_;
  std::vector<Stopwatch> started_;
  std::vector<RankEnd> ends_;
  size_t num_ended_ = 0;
};

}  // namespace weft::launcher
