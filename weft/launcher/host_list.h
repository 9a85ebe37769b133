// The hosts of a run and how many ranks each has, as they are typed ("a,b:2") or written in a file:
//
//   # a comment
//   node0 slots=4
//   node1:4
//   node2              as many as -n says
//
// A name is what ssh takes: a host, its address, an alias of the ssh config, or one of them after "user@".
//
// Free functions, any thread. Failure: Error(kInput), for a file with its line; IoError for one that cannot be read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::launcher {

struct Host {
  std::string name;  // an IPv6 address without its brackets
  int num_ranks = 1;
  bool operator==(const Host&) const = default;
};

// `default_ranks` for those that do not say.
std::vector<Host> parse_hosts(std::string_view text, int default_ranks);
std::vector<Host> read_hostfile(const std::string& path, int default_ranks);

// Where the other hosts reach it: without "user@".
std::string address_of(const Host& host);

// Only this machine itself can reach it there.
bool is_loopback(const Host& host);

}  // namespace weft::launcher
