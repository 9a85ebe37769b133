// The last collectives of one rank, kept in memory while it runs and written out when something goes wrong:
// `weft blame` joins the ranks' dumps and names the rank that was to blame.
//
//   FlightRecorder recorder({.rank = 3, .world = 8, .run_id = "20261115-014500"});
//   recorder.add_group("world", {0, 1, 2, 3, 4, 5, 6, 7});
//   const uint64_t id = recorder.begin({.group = "world", .operation = "all_reduce", .sequence = 17, ...});
//   ...
//   recorder.finish(id);
//   write_flight_dump(Env::posix(), "runs/x/flight", recorder.dump("PeerLost: rank 2 ..."));
//
// Recording takes a lock and copies one entry into a slot that is there already: no allocation once the slots have seen
// texts as long. The ring holds kFlightEntries; older ones are overwritten.
//
// Threads: any may call anything at any time. Failure: recording does not fail; see flight_dump.h for files.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace weft {

inline constexpr size_t kFlightEntries = 2000;

enum class FlightState {
  kQueued,   // the rank has called it; its turn has not come
  kStarted,  // under way: waiting for the others, or moving bytes
  kFinished,
  kFailed,  // it threw: a peer lost, a deadline over
};

// One collective as this rank called it. Operations: all_reduce, reduce_scatter, all_gather, broadcast, reduce,
// all_to_all, gather, scatter, barrier, send, recv.
struct FlightEntry {
  std::string group;
  std::string operation;
  uint64_t sequence = 0;  // in its group, from 1; send and recv are counted apart
  uint64_t bytes = 0;
  std::string dtype = {};      // "float"; "" where there is none
  std::string reduce_op = {};  // "sum"; "" where there is none
  int64_t peer = -1;           // the root, or the other end; -1: none
  std::string transport = {};  // "shm", "gloo", ...
  int64_t start_ns = 0;        // when it was called; wall clock, so that ranks of one host can be compared
  int64_t end_ns = 0;          // 0: it has not ended
  FlightState state = FlightState::kStarted;

  bool operator==(const FlightEntry&) const = default;
};

struct FlightOwner {
  int64_t rank = 0;
  int64_t world = 1;
  std::string run_id = {};
};

// What one rank leaves behind.
struct FlightDump {
  FlightOwner owner;
  std::string host = {};
  int64_t pid = 0;
  std::string reason = {};                                  // why it was written; one line
  std::string time = {};                                    // ISO-8601, UTC
  std::map<std::string, std::vector<int64_t>> groups = {};  // the ranks of each
  uint64_t recorded = 0;                  // collectives since the start; more than entries once the ring was full
  std::vector<FlightEntry> entries = {};  // oldest first
};

class FlightRecorder {
 public:
  explicit FlightRecorder(FlightOwner owner, size_t capacity = kFlightEntries);

  // So that a rank without a single call in a group is missed there. Ranks are those of the world.
  void add_group(const std::string& name, std::vector<int64_t> ranks);

  // Takes the entry down; start_ns is now unless it is set. The id is for the three calls below.
  uint64_t begin(const FlightEntry& entry);
  // A queued one has its turn. All three do nothing when the entry has been overwritten.
  void start(uint64_t id);
  void finish(uint64_t id);
  void fail(uint64_t id);

  // Oldest first.
  std::vector<FlightEntry> entries() const;
  // With the host, the process and the time filled in.
  FlightDump dump(std::string reason) const;

 private:
  void end(uint64_t id, FlightState state);
  // Null when overwritten. Requires: mutex_ held.
  FlightEntry* find(uint64_t id);
  // Requires: mutex_ held.
  std::vector<FlightEntry> entries_locked() const;

  const FlightOwner owner_;
  mutable std::mutex mutex_;
  std::vector<FlightEntry> ring_;
  uint64_t num_begun_ = 0;  // the next id
  std::map<std::string, std::vector<int64_t>> groups_;
};

}  // namespace weft
