// Makes items 0, 1, 2, ... ahead of their use in threads of its own, and hands them out in that order.
//
//   Prefetcher<Batch> batches(num_batches, {.num_threads = 2, .depth = 4}, [&](int64_t i) { return read_batch(i); });
//   while (auto batch = batches.next()) train(*batch);
//
// At most `depth` items are finished or under way at any moment, so memory is bounded however slow the consumer. What `make`
// throws is thrown by the next() that would have returned the item; the items after it still come. With no threads, next()
// calls `make` itself.
//
// Ownership: the threads live until the destructor, which lets each finish the item it is at, starts no more and joins; so
// what `make` refers to must outlive this. Threads: next() from one thread at a time; `make` is called from several at once.
// Failure: the constructor throws Error(kInput) on impossible options.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace weft::data {

struct PrefetchOptions {
  int64_t num_threads = 1;  // 0: in the caller's thread
  int64_t depth = 2;        // items
};

// Throws unless num_threads is 0, or both are at least 1 and within reason.
void check(const PrefetchOptions& options);

template <typename T>
class Prefetcher {
 public:
  using Make = std::function<T(int64_t)>;

  Prefetcher(int64_t num_items, PrefetchOptions options, Make make) : num_items_(num_items), make_(std::move(make)) {
    check(options);
    if (options.num_threads == 0) return;
    slots_.resize(static_cast<size_t>(options.depth));
    try {
      for (int64_t i = 0; i < options.num_threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {  // no room for another thread: the destructor will not run
      stop();
      throw;
    }
  }
  ~Prefetcher() { stop(); }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next item, or nothing after the last.
  std::optional<T> next() {
    if (taken_ == num_items_) return std::nullopt;
    if (threads_.empty()) return make_(taken_++);
    Slot slot = take();
    room_.notify_one();
    if (slot.error) std::rethrow_exception(slot.error);
    return std::move(slot.item);
  }

 private:
  // Of item i: slots_[i mod depth], empty until one of the two is there.
  struct Slot {
    std::optional<T> item;
    std::exception_ptr error;
    bool filled() const { return item.has_value() || error != nullptr; }
  };

  Slot& slot_of(int64_t item) { return slots_[static_cast<size_t>(item) % slots_.size()]; }

  Slot take() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return slot_of(taken_).filled(); });
    return std::exchange(slot_of(taken_++), Slot{});
  }

  bool may_start() const { return started_ < num_items_ && started_ - taken_ < static_cast<int64_t>(slots_.size()); }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      room_.wait(lock, [&] { return stopping_ || started_ == num_items_ || may_start(); });
      if (stopping_ || started_ == num_items_) return;
      const int64_t item = started_++;
      lock.unlock();
      Slot made = make_slot(item);
      lock.lock();
      slot_of(item) = std::move(made);
      if (item == taken_) ready_.notify_one();
      if (started_ == num_items_) room_.notify_all();  // the others have nothing to wait for
    }
  }

  Slot make_slot(int64_t item) {
    Slot made;
    try {
      made.item.emplace(make_(item));
    } catch (...) {
      made.error = std::current_exception();
    }
    return made;
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    for (auto& thread : threads_) thread.join();
    threads_.clear();
  }

  const int64_t num_items_;
  const Make make_;
  std::mutex mutex_;
  std::condition_variable ready_;  // the item that next() waits for is there
  std::condition_variable room_;   // an item was taken, or there is no more to do
  std::vector<Slot> slots_;
  int64_t started_ = 0;  // items that a thread has begun
  int64_t taken_ = 0;    // items handed out; changed by the consumer alone
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace weft::data
