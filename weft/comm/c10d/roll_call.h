// Who is there, what each is doing, and who is to blame when a collective does not end.
//
// Every rank of a group writes a beat into the store, from a thread of its own, about ten times within the group's
// deadline, and reads the others'. A rank whose beats stop is lost after kMissedBeats of them; on the same host the end
// of its process shows at once. One that beats but does not arrive is lost only at the deadline. The first to find a
// loss writes the verdict, in one step; all others throw what stands there, also a rank whose connection broke because
// somebody had given up. When the store itself is gone, so is rank 0, who serves it.
//
// Ownership: leaves the group when destroyed; the rank that serves the store then waits a few beats, until the others
// have read why. Threads: calls from any; on_end() runs on the roll call's thread. Failure: PeerLost, or Error(kInput)
// for ranks that do not belong together and Error(kBug) for ranks that make different calls; every wait ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/comm/c10d/store.h"
#include "weft/comm/fabric/call.h"
#include "weft/comm/group.h"

namespace weft::comm {

struct GroupIdentity {
  std::string name;  // the store's keys begin with it: never used twice in one store, also not after a restart
  int rank = 0;
  int world = 1;
  double deadline_s = 600;
};

// Who we are in a group of some of the ranks, under a name of its own in the store. Fails as rank_among().
GroupIdentity part_of(const Group& whole, const std::vector<int>& ranks, const std::string& name);

inline constexpr int kMissedBeats = 4;

// How often a rank of a group with this deadline says that it lives.
double beat_interval_s(double deadline_s);

// What a rank is about to do.
struct Doing {
  fabric::Operation operation = fabric::Operation::kNone;
  uint64_t sequence = 0;     // the number of the collective
  int peer = -1;             // of send and recv, and of nothing else
  uint64_t fingerprint = 0;  // collectives: equal in all ranks, or the call is wrong
  std::string call;          // the same in words
};

struct Failure {
  bool timed_out = false;
  int suspect = -1;  // the peer at the other end of what failed; -1: unknown
  std::string text;  // what the transport said
};

class RollCall {
 public:
  // Returns when all ranks are there, or throws PeerLost naming one that is not.
  RollCall(const GroupIdentity& self, const Store& store, Deadline deadline);
  ~RollCall();
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;

  // Around every call: one collective at a time, and any number of messages beside it. begin() throws when the group
  // has ended.
  void begin(const Doing& what);
  void done(const Doing& what);

  bool has_ended() const;
  // Requires: has_ended().
  [[noreturn]] void throw_cause() const;
  // Finds who is to blame for a failure of ours, tells the others and throws it.
  [[noreturn]] void throw_cause(const Failure& failure);
  // Called once when the group has ended, at once if it has already. Must not call back.
  void on_end(std::function<void()> callback);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::comm
