// Messages between two ranks of a fabric: one ring of bytes for each ordered pair, in the sender's share.
//
// A message is a header (size, tag) and its bytes, streamed through the ring, so one larger than the ring waits for its
// receiver. Messages of one tag arrive in order; one of another tag that stands in front is put aside until it is asked for.
// The sender writes the ring and its count of bytes written, the receiver its count of bytes read: each in its own share.
//
// Threads: one per peer and direction. Failure: PeerLost (loss.h) for a peer that died, left or is not there by the
// deadline; Error(kBug) when a message has another size than its receiver expects.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "weft/comm/fabric/control.h"
#include "weft/comm/fabric/region.h"

namespace weft::fabric {

class Channels {
 public:
  // Of one rank's share.
  static size_t bytes_for(int world);

  // `control` must outlive it.
  Channels(Region region, Control& control);

  void send(const std::byte* data, size_t bytes, int to, int tag, Deadline deadline);
  void receive(std::byte* data, size_t bytes, int from, int tag, Deadline deadline);

 private:
  struct Ends;
  struct Ring;
  struct Aside {
    int tag;
    std::vector<std::byte> bytes;
  };
  // What one direction of one pair needs, touched by one thread only.
  struct Partner {
    PeerWatch watch;
    std::vector<Aside> aside;  // in order of arrival; receiving only
  };

  Ends& ends(int owner, int peer) const;
  Ring& ring(int from, int to) const;
  void write(const std::byte* data, size_t bytes, int to, Deadline deadline);
  void read(std::byte* data, size_t bytes, int from, Deadline deadline);
  bool take_aside(std::byte* data, size_t bytes, int from, int tag);

  const Region region_;
  Control& control_;
  const int rank_;
  std::vector<Partner> receivers_, senders_;  // by rank: whom we send to, whom we receive from
};

}  // namespace weft::fabric
