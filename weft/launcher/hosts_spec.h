// What `weft run --hosts` was asked to start: one program as the ranks of several hosts. A plain value, made by the
// command line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/launcher/host_list.h"
#include "weft/launcher/launch_spec.h"

namespace weft::launcher {

struct HostsSpec {
  // What all hosts share; ranks_per_host and num_hosts agree with `hosts`. Nothing as master_port: the first host finds
  // a free one for each attempt.
  LaunchSpec launch = {};
  std::vector<Host> hosts = {};
  std::vector<std::string> ssh = {};  // the words before the name of the host and the command for its shell
  std::string remote_weft = {};       // the program there
  std::string cwd = {};               // the ranks' folder
  // After a failure, hosts that do not answer are left out as long as so many ranks remain; 0: all must be there.
  int min_ranks = 0;
  std::map<std::string, std::string> env = {};  // variables they get besides those of their own host
};

}  // namespace weft::launcher
