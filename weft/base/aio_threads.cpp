// Asynchronous I/O by a pool of threads that make the ordinary blocking calls.
#include <deque>
#include <functional>
#include <stop_token>
#include <thread>
#include <vector>

#include "weft/base/aio_impl.h"

namespace weft::detail {
namespace {

class ThreadAio : public AsyncIo {
 public:
  explicit ThreadAio(const AsyncOptions& options) : board_(options.depth) {
    for (int i = 0; i < options.threads; ++i) {
      workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
  }
  ~ThreadAio() override { board_.drain(); }
  ThreadAio(const ThreadAio&) = delete;
  ThreadAio& operator=(const ThreadAio&) = delete;

  Ticket submit_read(File& file, uint64_t offset, std::span<std::byte> into) override {
    return submit([&file, offset, into] { return file.read_at(offset, into); });
  }
  Ticket submit_write(File& file, uint64_t offset, std::span<const std::byte> bytes) override {
    return submit([&file, offset, bytes] {
      file.write_at(offset, bytes);
      return bytes.size();
    });
  }
  Ticket submit_sync(File& file) override {
    return submit([&file] {
      file.sync();
      return size_t{0};
    });
  }

  std::optional<size_t> wait(Ticket ticket, Deadline deadline) override { return board_.wait(ticket, deadline); }
  bool wait_all(Deadline deadline) override { return board_.wait_all(deadline); }
  std::string_view backend_name() const override { return "threads"; }

 private:
  struct Job {
    Ticket ticket;
    std::function<size_t()> run;
  };

  Ticket submit(std::function<size_t()> run) {
    const Ticket ticket = board_.begin();
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back({ticket, std::move(run)});
    }
    arrived_.notify_one();
    return ticket;
  }

  void work(const std::stop_token& stop) {
    while (auto job = next_job(stop)) board_.finish(job->ticket, outcome_of(job->run));
  }

  std::optional<Job> next_job(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait(lock, stop, [&] { return !jobs_.empty(); })) return std::nullopt;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    return job;
  }

  static Outcome outcome_of(const std::function<size_t()>& run) {
    try {
      return {.bytes = run(), .error = nullptr};
    } catch (...) {
      return {.bytes = 0, .error = std::current_exception()};
    }
  }

  TicketBoard board_;
  std::mutex mutex_;
  std::condition_variable_any arrived_;
  std::deque<Job> jobs_;
  std::vector<std::jthread> workers_;  // last: they stop and join before what they use goes
};

}  // namespace

std::unique_ptr<AsyncIo> make_thread_aio(const AsyncOptions& options) { return std::make_unique<ThreadAio>(options); }

}  // namespace weft::detail
