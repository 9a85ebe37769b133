// A collective under way.
//
// wait() returns when the result may be used: on CPU when it is there; on CUDA the current stream is made to wait for it
// and the host goes on. It throws what the collective died of (PeerLost, IoError, Error), every time it is called.
// A Work may be dropped: the collective goes on, and its tensors are held until it ends.
//
// Ownership: a handle, copies share the state. Threads: any may ask. Failure: see wait().
#pragma once

#include <cstdint>
#include <memory>

#include "weft/base/clock.h"

namespace weft::comm {

class WorkState {
 public:
  WorkState() = default;
  virtual ~WorkState() = default;
  WorkState(const WorkState&) = delete;
  WorkState& operator=(const WorkState&) = delete;

  virtual bool done() = 0;
  virtual void wait(Deadline deadline) = 0;
  // As now_ns(); 0 while it is not done. On CUDA: when the host saw it done.
  virtual int64_t finished_ns() = 0;
};

class Work {
 public:
  Work() = default;  // done, since nothing was to do
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}

  bool done() const { return !state_ || state_->done(); }
  // Its own deadline is the group's, counted from when it began; a shorter one here is an Error, and the work goes on.
  void wait(Deadline deadline = Deadline::never()) const {
    if (state_) state_->wait(deadline);
  }
  int64_t finished_ns() const { return state_ ? state_->finished_ns() : 0; }

 private:
  std::shared_ptr<WorkState> state_;
};

// When it was done, as a span asks for its end (monitor/span.h): 0 not yet, negative never, since it failed or nothing was to do.
inline int64_t end_of(const Work& work) {
  if (!work.done()) return 0;
  const int64_t finished_ns = work.finished_ns();
  return finished_ns > 0 ? finished_ns : -1;
}

}  // namespace weft::comm
