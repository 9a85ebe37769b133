// Asynchronous I/O that does its work as late as the contract allows, in the thread that asks for the result.
#include <functional>
#include <map>

#include "weft/base/aio_impl.h"
#include "weft/base/check.h"
#include "weft/base/crash_disk_impl.h"

namespace weft::detail {
namespace {

class LateAio : public AsyncIo {
 public:
  explicit LateAio(const AsyncOptions& options)
      : depth_(static_cast<size_t>(options.depth)), board_(options.depth + 1) {
    WEFT_CHECK_GE(options.depth, 1);
  }
  ~LateAio() override { run_all(); }
  LateAio(const LateAio&) = delete;
  LateAio& operator=(const LateAio&) = delete;

  Ticket submit_read(File& file, uint64_t offset, std::span<std::byte> into) override {
    return queue([&file, offset, into] { return file.read_at(offset, into); });
  }
  Ticket submit_write(File& file, uint64_t offset, std::span<const std::byte> bytes) override {
    return queue([&file, offset, bytes] {
      file.write_at(offset, bytes);
      return bytes.size();
    });
  }
  // At once: it must not cover writes that nobody has waited for.
  Ticket submit_sync(File& file) override {
    const std::lock_guard lock(mutex_);
    const Ticket ticket = board_.begin();
    finish(ticket, [&file] {
      file.sync();
      return size_t{0};
    });
    return ticket;
  }

  std::optional<size_t> wait(Ticket ticket, Deadline deadline) override {
    {
      const std::lock_guard lock(mutex_);
      if (auto job = queued_.extract(ticket.id)) finish(ticket, job.mapped());
    }
    return board_.wait(ticket, deadline);
  }
  bool wait_all(Deadline deadline) override {
    run_all();
    return board_.wait_all(deadline);
  }
  std::string_view backend_name() const override { return "late"; }

 private:
  using Job = std::function<size_t()>;

  Ticket queue(Job job) {
    const std::lock_guard lock(mutex_);
    if (queued_.size() == depth_) run_oldest();
    const Ticket ticket = board_.begin();
    queued_.emplace(ticket.id, std::move(job));
    return ticket;
  }

  void run_all() {
    const std::lock_guard lock(mutex_);
    while (!queued_.empty()) run_oldest();
  }

  // Requires: mutex_ held, something queued.
  void run_oldest() {
    const auto job = queued_.extract(queued_.begin());
    finish({job.key()}, job.mapped());
  }

  void finish(Ticket ticket, const Job& job) {
    Outcome outcome;
    try {
      outcome.bytes = job();
    } catch (...) {
      outcome.error = std::current_exception();
    }
    board_.finish(ticket, std::move(outcome));
  }

  const size_t depth_;
  TicketBoard board_;
  std::mutex mutex_;
  std::map<uint64_t, Job> queued_;
};

}  // namespace

std::unique_ptr<AsyncIo> make_late_aio(const AsyncOptions& options) { return std::make_unique<LateAio>(options); }

}  // namespace weft::detail
