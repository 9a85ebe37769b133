// A transport that moves host memory, one call after the other: what shm, gloo and their combination share.
//
// A blocking call with nothing queued runs on the caller's thread: a hand-over would cost more than a small collective. The
// others run on one thread of the group, in order. Device tensors are staged through pinned host memory: copied out on a
// stream of the group's own behind an event of the caller's stream, and back the same way (staging.h).
//
// send and recv are not part of that order: each peer and direction has an order of its own, so that two ranks that exchange
// messages do not wait for each other.
//
// Implementations provide execute(): blocking, host tensors, complete() calls. Threads: execute() is entered once for
// collectives, and beside it once for each peer and direction.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "weft/comm/group.h"

namespace weft::comm {

class Runner;

class HostGroup : public Group {
 public:
  ~HostGroup() override;

 protected:
  HostGroup(std::string name, int rank, int world, double deadline_s);

  // Does it, or throws. What it throws first is what every later call throws.
  virtual void execute(const Collective& call, uint64_t sequence, Deadline deadline) = 0;
  // To be called first in an implementation's destructor: after it execute() is not running and will not.
  void stop();
  // Runs something else (an allocation) in the order of calls, on the caller's thread; a failure is nobody else's.
  void in_turn(const std::function<void()>& what);

 private:
  Work launch(const Collective& call, Launch how) final;
  Work launch_staged(const Collective& call, Launch how);

  Runner& runner_of(const Collective& call);

  const double job_limit_s_;
  std::unique_ptr<Runner> collectives_;
  std::map<std::pair<Operation, int>, std::unique_ptr<Runner>>
      messages_;  // by direction and peer, made when first used
};

}  // namespace weft::comm
