// What `weft run` was asked to start: one program as the ranks of this host. A plain value, made by the command line.
#pragma once

#include <chrono>
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
  std::string master_addr = "127.0.0.1";
  std::optional<int> master_port = {};  // nothing: one host chooses a free one, several take kDefaultMasterPort
  int max_restarts = 0;
  std::chrono::nanoseconds grace = std::chrono::seconds(10);  // between asking ranks to end and killing them
  std::string log_dir = {};                                   // "": the ranks' output is forwarded
  bool prefix = true;
  std::optional<int> threads = {};  // OMP_NUM_THREADS
  bool bind_cores = false;
  std::string run_id = {};  // one name for all attempts; the same on all hosts

  int world() const { return num_local * num_hosts; }
  int rank_of(int local_rank) const { return host_rank * num_local + local_rank; }
  // One rank alone keeps our own streams: a terminal stays a terminal for it.
  bool forwards_output() const { return log_dir.empty() && num_local > 1; }
};

}  // namespace weft::launcher
