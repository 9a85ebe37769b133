// Threads started while one lives do not take the processor from a running thread at the moment they wake: they wait
// for one that is free, or for the next tick (SCHED_BATCH).
//
// Gloo's threads try for a connection's lock and, where the thread that they have just interrupted holds it, try again
// and again until their time is up. With fewer cores than threads that happens in most collectives of two ranks in
// step, and costs milliseconds each time. Failure: none; where it is not allowed they run as before.
#pragma once

#include <sched.h>

namespace weft::comm {

class BatchThreads {
 public:
  BatchThreads() {
    const sched_param none = {};
    changed_ = ::sched_getscheduler(0) == SCHED_OTHER && ::sched_setscheduler(0, SCHED_BATCH, &none) == 0;
  }
  ~BatchThreads() {
    const sched_param none = {};
    if (changed_) ::sched_setscheduler(0, SCHED_OTHER, &none);
  }
  BatchThreads(const BatchThreads&) = delete;
  BatchThreads& operator=(const BatchThreads&) = delete;

 private:
  bool changed_ = false;
};

}  // namespace weft::comm
