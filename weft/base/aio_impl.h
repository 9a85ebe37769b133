// What the asynchronous backends share: the board of tickets. A backend begins an operation, finishes it from whatever
// thread learns the outcome, and leaves the waiting to the board.
//
// Threads: any. Failure: finish delivers an exception to the waiter of that ticket.
#pragma once

#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "weft/base/aio.h"

namespace weft::detail {

struct Outcome {
  size_t bytes = 0;
  std::exception_ptr error;  // null: it worked
};

class TicketBoard {
 public:
  explicit TicketBoard(int depth) : depth_(static_cast<size_t>(depth)) {}
  // Logs the errors that nobody waited for. Requires: nothing in flight.
  ~TicketBoard();
  TicketBoard(const TicketBoard&) = delete;
  TicketBoard& operator=(const TicketBoard&) = delete;

  // Blocks while `depth` operations are in flight.
  AsyncIo::Ticket begin();
  void finish(AsyncIo::Ticket ticket, Outcome outcome);

  std::optional<size_t> wait(AsyncIo::Ticket ticket, Deadline deadline);
  bool wait_all(Deadline deadline);
  // Blocks until nothing is in flight; outcomes stay for their waiters.
  void drain();

 private:
  // Sleeps until `ready` holds, or the deadline: then false.
  template <typename Ready>
  bool sleep_until(std::unique_lock<std::mutex>& lock, Deadline deadline, Ready ready);

  const size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t last_id_ = 0;
  std::set<uint64_t> in_flight_;
  std::map<uint64_t, Outcome> done_;  // waiting to be collected, oldest first
};

std::unique_ptr<AsyncIo> make_thread_aio(const AsyncOptions& options);
// Null, with the reason, when this build or this kernel has no io_uring for us.
std::unique_ptr<AsyncIo> make_uring_aio(const AsyncOptions& options, std::string& why_not);

}  // namespace weft::detail
