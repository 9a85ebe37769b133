// Why a fabric came to an end. The first rank to find out writes a Loss into shared memory; every rank throws from that
// one record, so all survivors name the same peer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "weft/base/error.h"
#include "weft/comm/fabric/call.h"

namespace weft::fabric {

enum class LossKind : uint32_t {
  kDied,      // its process has ended
  kLeft,      // it closed its fabric while others waited for it
  kSilent,    // it did not arrive by the deadline
  kDisagree,  // it made another call than the rest
  kRefused,   // the ranks do not belong together: two with one number, another world or version
};

// Plain bytes, because it lies in shared memory.
struct Loss {
  LossKind kind = LossKind::kDied;
  int32_t rank = -1;  // the peer that is lost
  int32_t pid = 0;    // 0: it never came
  int32_t world = 0;
  Operation operation = Operation::kNone;  // what the peer was last doing
  uint64_t sequence = 0;
  int32_t found_by = -1;
  Operation during = Operation::kNone;  // what the finder was doing
  uint64_t during_sequence = 0;
  char detail[192] = {};  // more, in words; terminated

  void set_detail(const std::string& text);
};

// A peer is gone or did not come. The fabric cannot be used any more; join again with the ranks that are left.
class PeerLost : public Error {
 public:
  explicit PeerLost(const Loss& loss);

  int rank() const { return loss_.rank; }
  pid_t pid() const { return loss_.pid; }
  LossKind loss_kind() const { return loss_.kind; }
  // What it was last seen doing.
  Operation operation() const { return loss_.operation; }
  uint64_t sequence() const { return loss_.sequence; }

 private:
  Loss loss_;
};

// PeerLost for a lost peer; a plain Error where the ranks do not fit together.
[[noreturn]] void throw_loss(const Loss& loss);

}  // namespace weft::fabric
