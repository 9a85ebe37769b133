// Numbers that a room keeps up to date while it works: counters only grow (bytes sent, buckets reduced), gauges go up
// and down (bytes in use). Always on: an update is one relaxed atomic operation.
//
//   static Counter& sent = counter("comm.bytes_sent");
//   sent.add(bytes);
//
// A name has one cell for the life of the process, whoever asks for it. Names carry their unit, and the room first.
//
// Threads: any. A snapshot is not one moment: each value is, and no update is lost.
// Failure: asking for a counter under the name of a gauge, or the other way round, is Error(kBug).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Each on a cache line of its own: two busy counters must not slow each other down.
class alignas(64) Counter {
 public:
  // Requires: by >= 0.
  void add(int64_t by = 1) { value_.fetch_add(by, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_ = 0;
};

class alignas(64) Gauge {
 public:
  void set(int64_t value) { value_.store(value, std::memory_order_relaxed); }
  void add(int64_t by) { value_.fetch_add(by, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_ = 0;
};

Counter& counter(std::string_view name);
Gauge& gauge(std::string_view name);

struct CounterValue {
  std::string name;
  bool is_gauge = false;
  int64_t value = 0;
};

// All of them, by name.
std::vector<CounterValue> read_counters();

}  // namespace weft
