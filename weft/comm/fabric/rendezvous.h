// How the ranks of one host find each other, knowing only the run's name, their own number and how many there are.
//
// Rank 0 listens on an abstract unix socket named after the run. Each rank connects, says who it is, and gets the
// descriptor of the control block back; then all meet in its first barrier. The sockets stay open, a star around rank 0,
// to hand over the descriptors of later segments. Ranks may be processes, or threads of one process.
//
// Ownership: owns the control block's mapping and this rank's sockets. Threads: one owner. Failure: Error(kInput) for
// ranks that do not fit together (two with one number, another world, another version), told to every rank;
// PeerLost for one that has not come by the deadline or died; IoError when the kernel refuses a socket or memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/comm/fabric/control.h"

namespace weft::fabric {

// Whether the pages of a segment are had now, or one by one when they are touched.
enum class Backing { kNow, kLater };

struct Membership {
  std::string run_id;  // any text, the same in every rank; a group within a run takes a name of its own
  int rank = 0;
  int world = 1;
};

class Rendezvous {
 public:
  Rendezvous(const Membership& self, Deadline deadline);

  Control& control() { return *control_; }

  // Gives every rank the same fresh segment, made by rank 0, and mapped. All ranks must call it, with equal bytes, inside
  // a call begun on the control block. Where it fails in one rank it throws the same IoError in all, and the fabric lives.
  Segment share_segment(size_t bytes, const std::string& name, Backing backing, Deadline deadline);

 private:
  void host(const Membership& self, Deadline deadline);
  void attend(const Membership& self, Deadline deadline);
  void admit(UniqueFd socket);
  [[noreturn]] void refuse(int socket, int rank, const std::string& why);
  Segment hand_out(size_t bytes, const std::string& name);
  Segment take_in(size_t bytes, Deadline deadline);

  std::vector<UniqueFd> sockets_;     // rank 0: one per rank, its own empty; others: the one to rank 0
  std::unique_ptr<Control> control_;  // ends first: peers read that we left before they find a socket closed
};

}  // namespace weft::fabric
