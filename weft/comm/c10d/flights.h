// Device calls under way: a thread that sees them end, and ends them all when a peer is lost or one is late. Without it
// a kernel that waits for a dead peer would hold its stream, and every host thread that waits for that stream, for
// ever.
//
// A call's deadline counts from when the one before it ended: until then it has not begun.
//
// Ownership: borrows the roll call; owns the flights, together with their Work handles. Threads: add() from one at a
// time, handles from any. Failure: a flight that was ended throws the roll call's cause from its Work.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "weft/comm/c10d/roll_call.h"
#include "weft/comm/work.h"

namespace weft::comm {

class Flight {
 public:
  Flight() = default;
  virtual ~Flight() = default;
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  virtual bool completed() = 0;
  // Makes the current stream wait for it.
  virtual void order_current_stream() = 0;
};

class Flights {
 public:
  // `abort` makes every kernel of the group return, with whatever result. It runs on the thread of the flights.
  Flights(RollCall& roll_call, double deadline_s, std::function<void()> abort);
  // Waits until all have ended, which the deadlines bound.
  ~Flights();
  Flights(const Flights&) = delete;
  Flights& operator=(const Flights&) = delete;

  // For a call that the roll call was told of.
  Work add(std::unique_ptr<Flight> flight, const Doing& doing);

 private:
  class Item;
  void watch();
  void land_completed();
  void give_up();

  RollCall& roll_call_;
  const double deadline_s_;
  const std::function<void()> abort_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Item>> in_flight_;
  Deadline front_deadline_ = Deadline::never();
  bool stop_ = false, ended_ = false;
  std::thread thread_;
};

}  // namespace weft::comm
