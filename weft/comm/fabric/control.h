// One rank's view of the control block: who is there, what each is doing, the barrier, and the common end.
//
// Waiting spins for some microseconds where every rank can have a core, then sleeps on a futex. While it sleeps it looks
// every 20 ms at the peers that have not arrived: one that died or left ends the wait at once, one that is merely not
// coming ends it at the deadline. Whoever finds that out writes it down for all, and from then on every call of every
// rank throws the same cause.
//
// Ownership: owns the mapping of the block. Threads: one rank, one thread at a time (note, ring and wait_for_peer: any); ranks
// may be threads of one process.
// Failure: PeerLost and its kin (loss.h), from every method that takes a deadline or begins a call.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/comm/fabric/call.h"
#include "weft/comm/fabric/liveness.h"
#include "weft/comm/fabric/loss.h"
#include "weft/comm/fabric/segment.h"

namespace weft::fabric {

struct ControlBlock;
struct RankSlot;

class Control {
 public:
  static size_t bytes_for(int world);

  // A fresh segment is all zeros, which is a valid block in which nobody has come yet. Announces this process.
  Control(Segment segment, int rank, int world);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  int rank() const { return rank_; }
  int world() const { return world_; }
  int fd() const { return segment_.fd(); }
  void close_fd() { segment_.close_fd(); }

  // Starts the next call of this rank: from here on peers see it, and errors name it.
  void begin(const Call& call);
  // What this rank does outside the common order of calls (send, recv), for errors to name.
  void note(Operation operation);
  // Compares the peers' call with ours. Requires: one barrier since begin.
  void check_agreement();
  void barrier(Deadline deadline);

  // A number beside the call, for all to see after the next barrier: the errno of a step that may fail in one rank.
  void publish_code(int code);
  int code_of(int rank) const;

  // For waits of another kind (a socket): throws what was lost, or when a peer that has not arrived at the next barrier
  // is gone, or past the deadline. Call it every kLookInterval.
  void look_after_peers(Deadline deadline);
  // Waits until `ready()`, which `peer` makes true and then rings for. Any thread; `watch` is the caller's, for this peer.
  void wait_for_peer(int peer, const std::function<bool()>& ready, PeerWatch& watch, Deadline deadline);
  // Wakes whoever sleeps.
  void ring();
  // Ends the fabric for all ranks, with this cause unless there is one already, and throws the one that counts.
  [[noreturn]] void give_up(Loss loss);
  // The peer as it stands now, ready for give_up.
  Loss loss_of(int peer, LossKind kind) const;

 private:
  RankSlot& slot(int rank) const;
  RankSlot& mine() const { return slot(rank_); }
  bool has_arrived(int peer, uint64_t barrier) const;
  bool all_arrived(uint64_t barrier) const;
  bool spin(const std::function<bool()>& ready) const;
  // Sleeps at most kLookInterval; true when all of it went by.
  bool sleep(uint32_t heard, Deadline deadline);
  void look_for_losses(uint64_t barrier, Deadline deadline);
  // Nothing while it lives and belongs to us.
  std::optional<LossKind> fate_of(int peer, PeerWatch& watch) const;
  void give_up_late(uint64_t barrier);
  void throw_if_lost() const;

  Segment segment_;
  ControlBlock* block_;
  RankSlot* slots_;
  const int rank_, world_;
  const bool may_spin_;
  uint64_t barrier_ = 0;  // as in mine().arrived
  uint64_t sequence_ = 0;
  Call call_;
  std::vector<PeerWatch> watches_;  // opened at the first look: a run without trouble opens none
};

// How often a wait looks whether its peers still live.
inline constexpr std::chrono::milliseconds kLookInterval{20};

}  // namespace weft::fabric
