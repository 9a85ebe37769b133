// Which rank is on which host. Values and pure functions; hosts are numbered from 0 in order of first appearance.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::comm {

class HostLayout {
 public:
  explicit HostLayout(std::vector<int> host_of);

  int num_hosts() const { return static_cast<int>(ranks_.size()); }
  int host_of(int rank) const { return host_of_[static_cast<size_t>(rank)]; }
  int local_rank_of(int rank) const { return local_rank_of_[static_cast<size_t>(rank)]; }
  const std::vector<int>& ranks_of(int host) const { return ranks_[static_cast<size_t>(host)]; }
  // The first rank of each host.
  std::vector<int> leaders() const;
  // Whether each host's ranks follow each other, host after host.
  bool is_contiguous() const;
  // How many ranks each host has where all have as many; else 0.
  int ranks_per_host() const;

  // Counts per rank, added up per host.
  std::vector<int64_t> per_host(const std::vector<int64_t>& counts) const;
  // The counts of one host's ranks.
  std::vector<int64_t> of_host(const std::vector<int64_t>& counts, int host) const;

 private:
  std::vector<int> host_of_, local_rank_of_;
  std::vector<std::vector<int>> ranks_;
};

// Any labels, equal where the host is the same, as numbers from 0 in order of first appearance.
std::vector<int> numbered_by_appearance(const std::vector<int>& labels);
std::vector<int> numbered_by_appearance(const std::vector<std::string>& labels);

}  // namespace weft::comm
