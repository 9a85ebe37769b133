#include "weft/comm/slurm_text.h"

#include <algorithm>
#include <charconv>
#include <climits>

namespace weft::comm {
namespace {

std::string_view take_item(std::string_view& list) {
  const size_t comma = std::min(list.find(','), list.size());
  const std::string_view item = list.substr(0, comma);
  list.remove_prefix(std::min(comma + 1, list.size()));
  return item;
}

}  // namespace

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [stopped, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || stopped != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string first_host(std::string_view hosts) {
  std::string out;
  for (size_t at = 0; at < hosts.size() && hosts[at] != ','; ++at) {
    if (hosts[at] != '[') {
      out += hosts[at];
      continue;
    }
    // A name may have several brackets, rack[1-2]n[01-16].
    const size_t close = hosts.find(']', at);
    if (close == std::string_view::npos) return "";
    const std::string_view numbers = hosts.substr(at + 1, close - at - 1);
    out += numbers.substr(0, numbers.find_first_of(",-"));
    at = close;
  }
  return out;
}

std::optional<int> tasks_on_host(std::string_view tasks_per_host, int host) {
  int64_t left = host;
  while (!tasks_per_host.empty()) {
    const std::string_view item = take_item(tasks_per_host);
    const size_t times = item.find("(x");
    const bool is_repeated = times != std::string_view::npos && item.ends_with(')');
    const auto tasks = whole_number(item.substr(0, is_repeated ? times : item.size()));
    const auto hosts = is_repeated ? whole_number(item.substr(times + 2, item.size() - times - 3)) : 1;
    if (!tasks || !hosts || *tasks < 0 || *tasks > INT_MAX || *hosts < 1) return std::nullopt;
    if (left < *hosts) return static_cast<int>(*tasks);
    left -= *hosts;
  }
  return std::nullopt;
}

}  // namespace weft::comm
