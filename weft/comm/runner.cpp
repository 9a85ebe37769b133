#include "weft/comm/runner.h"

#include <ATen/record_function.h>

#include <condition_variable>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::comm {

struct Runner::Signal {
  std::mutex mutex;
  std::condition_variable changed;
};

class Runner::Item final : public WorkState {
 public:
  Item(std::shared_ptr<Signal> signal, Job job, Job ordered, std::function<bool()> landed, Deadline limit)
      : signal_(std::move(signal)),
        job_(std::move(job)),
        ordered_(std::move(ordered)),
        landed_(std::move(landed)),
        limit_(limit) {}

  bool done() override { return finished_ns() != 0; }

  int64_t finished_ns() override {
    const std::scoped_lock lock(signal_->mutex);
    if (!landed_ || finished_ns_ == 0 || failure_) return finished_ns_;
    if (!landed_()) return 0;
    landed_ = nullptr;
    return finished_ns_ = now_ns();
  }

  void wait(Deadline deadline) override {
    const Deadline end = deadline.remaining() < limit_.remaining() ? deadline : limit_;
    {
      std::unique_lock lock(signal_->mutex);
      signal_->changed.wait_until(lock, end.time_point(), [&] { return finished_ns_ != 0; });
      if (finished_ns_ == 0) throw_late();
      if (failure_) std::rethrow_exception(failure_);
    }
    ordered_();
  }

  // On the runner's thread, without the lock.
  std::exception_ptr attempt() const {
    // What it does to tensors are no operators of the model: whoever watches those would wait for us.
    const at::DisableRecordFunctionGuard unwatched;
    try {
      job_();
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  }

  // Requires: the lock.
  void finish(std::exception_ptr failure) {
    failure_ = std::move(failure);
    finished_ns_ = now_ns();
    job_ = nullptr;  // lets go of the tensors
  }

 private:
  [[noreturn]] static void throw_late() {
    throw Error(ErrorKind::kEnvironment, {.title = "a collective is not done by the deadline of its wait",
                                          .what = "it was queued or under way, and goes on",
                                          .where = "",
                                          .fix = "wait again, or give the wait more time"});
  }

  const std::shared_ptr<Signal> signal_;
  Job job_;
  const Job ordered_;
  std::function<bool()> landed_;
  const Deadline limit_;
  std::exception_ptr failure_;
  int64_t finished_ns_ = 0;  // the job; and what it asked of a device, once that was seen
};

Runner::Runner(double job_limit_s) : job_limit_s_(job_limit_s), signal_(std::make_shared<Signal>()) {}
Runner::~Runner() { stop(); }

void Runner::throw_if_over() const {
  if (failure_) std::rethrow_exception(failure_);
  if (!stopping_) return;
  throw Error(ErrorKind::kBug, {.title = "a group was used after its end", .what = "", .where = "", .fix = ""});
}

Work Runner::submit(Job job, Job ordered, std::function<bool()> landed) {
  const std::scoped_lock lock(signal_->mutex);
  throw_if_over();
  const auto num_ahead = static_cast<double>(queue_.size() + (busy_ ? 1 : 0));
  const Deadline limit = Deadline::after(job_limit_s_ * (num_ahead + 1));
  queue_.push_back(std::make_shared<Item>(signal_, std::move(job), std::move(ordered), std::move(landed), limit));
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  signal_->changed.notify_all();
  return Work(queue_.back());
}

void Runner::run_now(const Job& job) {
  std::unique_lock lock(signal_->mutex);
  const auto num_ahead = static_cast<double>(queue_.size() + (busy_ ? 1 : 0));
  const Deadline limit = Deadline::after(job_limit_s_ * (num_ahead + 1));
  const auto is_free = [&] { return stopping_ || (queue_.empty() && !busy_); };
  if (!signal_->changed.wait_until(lock, limit.time_point(), is_free)) {
    throw Error(ErrorKind::kEnvironment, {.title = "earlier collectives of this group are not done by their deadline",
                                          .what = cat(queue_.size(), " are queued"),
                                          .where = "",
                                          .fix = ""});
  }
  throw_if_over();
  busy_ = true;
  lock.unlock();
  std::exception_ptr failure;
  try {
    job();
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  busy_ = false;
  if (failure && !failure_) failure_ = failure;
  if (thread_.joinable()) signal_->changed.notify_all();
  if (failure) std::rethrow_exception(failure);
}

void Runner::loop() {
  std::unique_lock lock(signal_->mutex);
  for (;;) {
    // Between jobs; stop() ends it.
    signal_->changed.wait(lock, [&] { return stopping_ || (!queue_.empty() && !busy_); });
    if (stopping_) return;
    const std::shared_ptr<Item> item = queue_.front();
    const std::exception_ptr over = failure_;
    busy_ = true;
    lock.unlock();
    std::exception_ptr failure = over ? over : item->attempt();
    lock.lock();
    busy_ = false;
    if (failure && !failure_) failure_ = failure;
    item->finish(failure);
    queue_.pop_front();
    signal_->changed.notify_all();
  }
}

void Runner::stop() {
  {
    const std::scoped_lock lock(signal_->mutex);
    stopping_ = true;
    signal_->changed.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  const std::scoped_lock lock(signal_->mutex);
  for (const auto& item : queue_) {
    item->finish(std::make_exception_ptr(Error(
        ErrorKind::kBug, {.title = "a group ended before this collective began", .what = "", .where = "", .fix = ""})));
  }
  queue_.clear();
  signal_->changed.notify_all();
}

}  // namespace weft::comm
