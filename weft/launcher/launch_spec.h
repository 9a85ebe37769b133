// What `weft run` was asked to start: one program as the ranks of this host. A plain value, made by the command line.
#pragma once

#include <chrono>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace weft::launcher {

inline constexpr int kMaxLocalRanks = 1024;
// Where the ranks of several hosts meet when nobody names a port; torchrun's own default.
inline constexpr int kDefaultMasterPort = 29500;

struct LaunchSpec {
  std::vector<std::string> argv = {};  // the program and its arguments
  int num_local = 1;                   // ranks on this host
  int num_hosts = 1, host_rank = 0;
  std::vector<int> ranks_per_host = {};  // of all hosts where they differ; empty: num_local on each
  std::string master_addr = "127.0.0.1";
  std::optional<int> master_port = {};  // nothing: one host chooses a free one, several take kDefaultMasterPort
  int max_restarts = 0;
  bool resume = false;                                        // ranks that are started again find WEFT_RESUME=1
  std::chrono::nanoseconds linger = {};                       // between a rank's failure and asking the others to end
  std::chrono::nanoseconds grace = std::chrono::seconds(10);  // between asking ranks to end and killing them
  std::string log_dir = {};                                   // "": the ranks' output is forwarded
  bool prefix = true;
  std::optional<int> threads = {};  // OMP_NUM_THREADS
  bool bind_cores = false;
  std::string run_id = {};     // one name for all attempts; the same on all hosts
  std::string host_name = {};  // as --hosts names it; "": nobody did

  // We start these ranks for a `weft run` on another host: what they print goes there, and standard input is its voice.
  bool is_agent = false;

  int world() const { return ranks_before(num_hosts); }
  int rank_of(int local_rank) const { return ranks_before(host_rank) + local_rank; }
  // One rank alone keeps our own streams: a terminal stays a terminal for it.
  bool forwards_output() const { return log_dir.empty() && (num_local > 1 || is_agent); }

 private:
  int ranks_before(int host) const {
    if (ranks_per_host.empty()) return host * num_local;
    return std::accumulate(ranks_per_host.begin(), ranks_per_host.begin() + host, 0);
  }
};

}  // namespace weft::launcher
