#include "weft/monitor/counter.h"

#include <map>
#include <mutex>

#include "weft/base/check.h"

namespace weft {
namespace {

struct CounterRegistry {
  std::mutex mutex;
  std::map<std::string, Counter, std::less<>> counters;  // nodes stay where they are
  std::map<std::string, Gauge, std::less<>> gauges;
};

// Never destroyed: threads may count while the process winds down.
CounterRegistry& counter_registry() {
  static CounterRegistry& one = *new CounterRegistry;
  return one;
}

template <typename Cell>
Cell& cell_named(std::map<std::string, Cell, std::less<>>& cells, std::string_view name) {
  const auto found = cells.find(name);
  return found != cells.end() ? found->second : cells.try_emplace(std::string(name)).first->second;
}

}  // namespace

Counter& counter(std::string_view name) {
  const std::lock_guard lock(counter_registry().mutex);
  WEFT_CHECK(!counter_registry().gauges.contains(name));
  return cell_named(counter_registry().counters, name);
}

Gauge& gauge(std::string_view name) {
  const std::lock_guard lock(counter_registry().mutex);
  WEFT_CHECK(!counter_registry().counters.contains(name));
  return cell_named(counter_registry().gauges, name);
}

std::vector<CounterValue> read_counters() {
  std::map<std::string, CounterValue> by_name;
  const std::lock_guard lock(counter_registry().mutex);
  for (const auto& [name, cell] : counter_registry().counters) by_name[name] = {.name = name, .value = cell.value()};
  for (const auto& [name, cell] : counter_registry().gauges)
    by_name[name] = {.name = name, .is_gauge = true, .value = cell.value()};
  std::vector<CounterValue> out;
  for (auto& [name, value] : by_name) out.push_back(std::move(value));
  return out;
}

}  // namespace weft
