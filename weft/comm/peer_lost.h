// A peer is gone or did not come. Every survivor throws it within the deadline and names the same rank; the Group cannot be
// used after it.
#pragma once

#include <string>
#include <vector>

#include "weft/base/error.h"

namespace weft::comm {

enum class LossKind {
  kDied,    // its process has ended, or its host is out of reach
  kLeft,    // it closed its group while others waited for it
  kSilent,  // it did not arrive by the deadline
};

struct Loss {
  LossKind kind = LossKind::kDied;
  int rank = -1;  // in the group
  std::string host;
  int pid = 0;  // 0: unknown
  // What it was last seen doing, "all_reduce, call 17"; what we waited for.
  std::string last_collective, waiting_in;
  std::string group;
  std::string detail;  // more, in words; may be empty
};

// The same, where rank i of its group is ranks[i].
Loss renumbered(Loss loss, const std::vector<int>& ranks);

class PeerLost : public Error {
 public:
  explicit PeerLost(Loss loss);
  int rank() const { return loss_.rank; }
  const Loss& loss() const { return loss_; }

 private:
  Loss loss_;
};

}  // namespace weft::comm
