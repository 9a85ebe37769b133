// Runs jobs one after the other: on one thread of its own, or on the caller's when nothing else is queued.
//
// Ownership: owns its thread, which starts with the first queued job; a Work may outlive it. Threads: submit() and run_now()
// from any. Failure: what a job throws goes to whoever waits for it, and fails every job after it with the same: later jobs
// build on earlier ones.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "weft/comm/work.h"

namespace weft::comm {

using Job = std::function<void()>;

class Runner {
 public:
  // `job_limit_s`: no job takes longer, which bounds every wait.
  explicit Runner(double job_limit_s);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // `ordered` runs in each wait() that succeeds, on the waiting thread. `landed`: whether what the job asked of a device is done too,
  // without which the work is not; asked after the job. None: nothing was asked.
  Work submit(Job job, Job ordered, std::function<bool()> landed = {});
  // Waits for what is queued, then runs it here.
  void run_now(const Job& job);
  // Lets the job that runs come to its end, drops the rest, joins. Later calls throw.
  void stop();

 private:
  struct Signal;
  class Item;
  void loop();
  void throw_if_over() const;

  const double job_limit_s_;
  const std::shared_ptr<Signal> signal_;  // shared with the items, which may outlive us
  std::deque<std::shared_ptr<Item>> queue_;
  std::exception_ptr failure_;
  bool busy_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace weft::comm
