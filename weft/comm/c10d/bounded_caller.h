// Calls that may never return, with a limit: they run one after the other on a thread that is left behind, with all
// that it holds, when one of them does not come back.
//
// Ownership: a call must own what it uses, since it may outlive its caller. Threads: any. Failure: false from call(),
// and from then on always; why() says it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace weft::comm {

class BoundedCaller {
 public:
  // `at_end` runs on the same thread, after the last call, if that one returned.
  explicit BoundedCaller(std::function<void()> at_end);
  ~BoundedCaller();
  BoundedCaller(const BoundedCaller&) = delete;
  BoundedCaller& operator=(const BoundedCaller&) = delete;

  // True when it returned in time. An exception is a failure like being late.
  bool call(std::function<void()> what, double limit_s);
  std::string why() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace weft::comm
