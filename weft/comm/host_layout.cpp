#include "weft/comm/host_layout.h"

#include <algorithm>

#include "weft/base/check.h"

namespace weft::comm {
namespace {

template <typename Label>
std::vector<int> numbered(const std::vector<Label>& labels) {
  std::vector<Label> seen;
  std::vector<int> numbers;
  for (const Label& label : labels) {
    const auto found = std::find(seen.begin(), seen.end(), label);
    numbers.push_back(static_cast<int>(found - seen.begin()));
    if (found == seen.end()) seen.push_back(label);
  }
  return numbers;
}

}  // namespace

HostLayout::HostLayout(std::vector<int> host_of) : host_of_(std::move(host_of)) {
  for (size_t rank = 0; rank < host_of_.size(); ++rank) {
    const auto host = static_cast<size_t>(host_of_[rank]);
    WEFT_CHECK_LE(host, ranks_.size());
    if (host == ranks_.size()) ranks_.emplace_back();
    local_rank_of_.push_back(static_cast<int>(ranks_[host].size()));
    ranks_[host].push_back(static_cast<int>(rank));
  }
}

std::vector<int> HostLayout::leaders() const {
  std::vector<int> leaders;
  for (const auto& ranks : ranks_) leaders.push_back(ranks.front());
  return leaders;
}

bool HostLayout::is_contiguous() const { return std::is_sorted(host_of_.begin(), host_of_.end()); }

int HostLayout::ranks_per_host() const {
  const auto as_first = [&](const auto& ranks) { return ranks.size() == ranks_.front().size(); };
  return std::all_of(ranks_.begin(), ranks_.end(), as_first) ? static_cast<int>(ranks_.front().size()) : 0;
}

std::vector<int64_t> HostLayout::per_host(const std::vector<int64_t>& counts) const {
  std::vector<int64_t> sums(ranks_.size(), 0);
  for (size_t rank = 0; rank < counts.size(); ++rank) sums[static_cast<size_t>(host_of_[rank])] += counts[rank];
  return sums;
}

std::vector<int64_t> HostLayout::of_host(const std::vector<int64_t>& counts, int host) const {
  std::vector<int64_t> own;
  for (const int rank : ranks_of(host)) own.push_back(counts[static_cast<size_t>(rank)]);
  return own;
}

std::vector<int> numbered_by_appearance(const std::vector<int>& labels) { return numbered(labels); }
std::vector<int> numbered_by_appearance(const std::vector<std::string>& labels) { return numbered(labels); }

}  // namespace weft::comm
