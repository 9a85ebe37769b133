// The collectives of this process, counted and timed by operation and size: comms_logger of a config.
//
//   comms_log().start({.verbose = false});
//   ...                                       // every call of a Group adds itself
//   for (const std::string& line : comms_table(comms_log().rows())) log_info(line);
//
// Off, a call pays one load. A call's time begins when it was made, or when the call before it in its group ended if that
// was later, and ends when it was done: what it took, not how long it stood in line. On a device the caller is made to
// wait for the end, as DeepSpeed's is.
//
// Bandwidths are DeepSpeed's: Gbit/s; for an all_reduce the algorithm moves its bytes twice.
//
// Ownership: one a process. Threads: any. Failure: none.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace weft {

struct CommsCall {
  std::string_view operation;  // as in FlightEntry
  uint64_t bytes = 0;          // of the larger of its two tensors
  int ranks = 1;               // of its group
  int64_t ns = 0;              // what it took
};

struct CommsBandwidth {
  double algorithm_gbps = 0, bus_gbps = 0;
};
CommsBandwidth bandwidth_of(const CommsCall& call);

struct CommsLogOptions {
  bool verbose = false;                      // a log line a call
  bool all = true;                           // else only:
  std::vector<std::string> operations = {};  // ours or DeepSpeed's names
};

// All calls of one operation and size.
struct CommsRow {
  std::string operation;
  uint64_t bytes = 0;
  int ranks = 1;
  uint64_t count = 0;
  int64_t total_ns = 0;

  int64_t mean_ns() const { return count == 0 ? 0 : total_ns / static_cast<int64_t>(count); }
};

class CommsLog {
 public:
  // From now on, and from nothing.
  void start(CommsLogOptions options);
  void stop() { is_on_.store(false, std::memory_order_relaxed); }
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }

  void add(const CommsCall& call);
  // By operation, then size.
  std::vector<CommsRow> rows() const;

 private:
  bool wants(std::string_view operation) const;

  struct Total {
    uint64_t count = 0;
    int64_t ns = 0;
  };
  std::atomic<bool> is_on_ = false;
  mutable std::mutex mutex_;
  CommsLogOptions options_;
  std::map<std::tuple<std::string, uint64_t, int>, Total, std::less<>> totals_;
};

CommsLog& comms_log();

// Lines of a table with DeepSpeed's columns.
std::vector<std::string> comms_table(std::span<const CommsRow> rows);

}  // namespace weft
