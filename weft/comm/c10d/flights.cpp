#include "weft/comm/c10d/flights.h"

#include <chrono>
#include <exception>

#include "weft/base/error.h"

namespace weft::comm {
namespace {

// How often the device is asked. A host that waits asks for itself.
constexpr std::chrono::microseconds kGlance{500};

}  // namespace

class Flights::Item final : public WorkState {
 public:
  Item(std::unique_ptr<Flight> flight, Doing doing) : doing_(std::move(doing)), flight_(std::move(flight)) {}

  bool done() override {
    const std::lock_guard lock(mutex_);
    return has_landed() || failure_;
  }
  void wait(Deadline /*deadline*/) override {  // the host does not wait here
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    flight_->order_current_stream();
  }
  int64_t finished_ns() override {
    const std::lock_guard lock(mutex_);
    return has_landed() ? finished_ns_ : 0;
  }
  // A result that came after the abort is none.
  void fail(const std::exception_ptr& why) {
    const std::lock_guard lock(mutex_);
    if (!has_landed()) failure_ = why;
  }
  const Doing& doing() const { return doing_; }

 private:
  bool has_landed() {
    if (finished_ns_ == 0 && !failure_ && flight_->completed()) finished_ns_ = now_ns();
    return finished_ns_ != 0;
  }

  const Doing doing_;
  std::mutex mutex_;
  std::unique_ptr<Flight> flight_;
  int64_t finished_ns_ = 0;
  std::exception_ptr failure_;
};

Flights::Flights(RollCall& roll_call, double deadline_s, std::function<void()> abort)
    : roll_call_(roll_call), deadline_s_(deadline_s), abort_(std::move(abort)) {
  thread_ = std::thread([this] { watch(); });
  roll_call_.on_end([this] {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  });
}

Flights::~Flights() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Work Flights::add(std::unique_ptr<Flight> flight, const Doing& doing) {
  const auto item = std::make_shared<Item>(std::move(flight), doing);
  {
    const std::lock_guard lock(mutex_);
    if (in_flight_.empty()) front_deadline_ = Deadline::after(deadline_s_);
    in_flight_.push_back(item);
  }
  changed_.notify_all();
  return Work(item);
}

void Flights::watch() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (in_flight_.empty() && stop_) return;
    if (in_flight_.empty()) {
      changed_.wait(lock, [&] { return stop_ || ended_ || !in_flight_.empty(); });
      continue;
    }
    changed_.wait_for(lock, kGlance, [&] { return ended_; });
    land_completed();
    if (in_flight_.empty() || !front_deadline_.expired() || ended_) continue;
    lock.unlock();
    try {
      roll_call_.throw_cause({.timed_out = true, .text = "the device did not finish the call in time"});
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it has told us through on_end
    }
    lock.lock();
  }
  lock.unlock();
  give_up();
}

// In order: they share a stream.
void Flights::land_completed() {
  while (!in_flight_.empty() && in_flight_.front()->done()) {
    roll_call_.done(in_flight_.front()->doing());
    in_flight_.pop_front();
    front_deadline_ = Deadline::after(deadline_s_);
  }
}

void Flights::give_up() {
  std::exception_ptr cause;
  try {
    roll_call_.throw_cause();
  } catch (const std::exception&) {
    cause = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    for (const auto& item : in_flight_) item->fail(cause);
    in_flight_.clear();
  }
  abort_();
}

}  // namespace weft::comm
