#include "weft/comm/c10d/bounded_caller.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>

#include "weft/base/text.h"
#include "weft/comm/c10d/no_sigpipe_impl.h"

namespace weft::comm {
namespace {

// How long a thread that is in order gets to end.
constexpr std::chrono::seconds kEndLimit{5};

// Texts of libraries go on with a stack and with advice for their own users: the first line says it all.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace

struct BoundedCaller::Shared {
  struct Job {
    std::function<void()> what;
    bool done = false;
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> jobs;
  std::function<void()> at_end;
  bool stop = false, ended = false;
  std::string why;  // empty: all is well

  void serve() {
    const NoSigpipe quiet;
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stop || !jobs.empty(); });
      if (stop) break;
      const auto job = jobs.front();
      jobs.pop_front();
      lock.unlock();
      const std::string failure = run(*job);
      lock.lock();
      if (!failure.empty() && why.empty()) why = failure;
      job->done = failure.empty();
      changed.notify_all();
    }
    lock.unlock();
    at_end();
    lock.lock();
    ended = true;
    changed.notify_all();
  }

  static std::string run(const Job& job) {
    try {
      job.what();
    } catch (const std::exception& error) {
      return first_line(error);
    }
    return "";
  }

  // In slices, so that the time for which this process was stopped itself does not count.
  bool wait_for(const Job& job, std::unique_lock<std::mutex>& lock, double limit_s) {
    constexpr int kSlices = 10;
    const auto over = [&] { return job.done || !why.empty(); };
    const auto slice = std::chrono::duration<double>(std::min(limit_s, 1e6) / kSlices);
    for (int i = 0; i < kSlices && !over(); ++i) changed.wait_for(lock, slice, over);
    if (!over()) why = cat("no answer within ", limit_s, " s");
    changed.notify_all();
    return job.done;
  }
};

BoundedCaller::BoundedCaller(std::function<void()> at_end) : shared_(std::make_shared<Shared>()) {
  shared_->at_end = std::move(at_end);
  thread_ = std::thread([shared = shared_] { shared->serve(); });
}

BoundedCaller::~BoundedCaller() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
  const auto limit = shared_->why.empty() ? kEndLimit : std::chrono::seconds(0);
  const bool ended = shared_->changed.wait_for(lock, limit, [&] { return shared_->ended; });
  lock.unlock();
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

bool BoundedCaller::call(std::function<void()> what, double limit_s) {
  const auto job = std::make_shared<Shared::Job>(Shared::Job{std::move(what)});
  std::unique_lock lock(shared_->mutex);
  if (!shared_->why.empty()) return false;
  shared_->jobs.push_back(job);
  shared_->changed.notify_all();
  return shared_->wait_for(*job, lock, limit_s);
}

std::string BoundedCaller::why() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->why;
}

}  // namespace weft::comm
