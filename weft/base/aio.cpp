#include "weft/base/aio.h"

#include <cstdlib>
#include <utility>

#include "weft/base/aio_impl.h"
#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/log.h"

namespace weft {
namespace detail {
namespace {

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an unknown error";
  }
}

}  // namespace

TicketBoard::~TicketBoard() {
  for (const auto& [id, outcome] : done_) {
    if (outcome.error)
      log_warn("an asynchronous operation failed and nobody waited for it: ", message_of(outcome.error));
  }
}

template <typename Ready>
bool TicketBoard::sleep_until(std::unique_lock<std::mutex>& lock, Deadline deadline, Ready ready) {
  if (!deadline.is_never()) return changed_.wait_until(lock, deadline.time_point(), ready);
  changed_.wait(lock, ready);
  return true;
}

AsyncIo::Ticket TicketBoard::begin() {
  std::unique_lock lock(mutex_);
  sleep_until(lock, Deadline::never(), [&] { return in_flight_.size() < depth_; });
  in_flight_.insert(++last_id_);
  return {last_id_};
}

void TicketBoard::finish(AsyncIo::Ticket ticket, Outcome outcome) {
  const std::lock_guard lock(mutex_);
  WEFT_CHECK_EQ(in_flight_.erase(ticket.id), 1u);
  done_.emplace(ticket.id, std::move(outcome));
  // Under the lock: a waiter that wakes may destroy the board.
  changed_.notify_all();
}

std::optional<size_t> TicketBoard::wait(AsyncIo::Ticket ticket, Deadline deadline) {
  std::unique_lock lock(mutex_);
  // False: never handed out, or used up already.
  WEFT_CHECK(in_flight_.contains(ticket.id) || done_.contains(ticket.id));
  if (!sleep_until(lock, deadline, [&] { return done_.contains(ticket.id); })) return std::nullopt;
  const Outcome outcome = std::move(done_.extract(ticket.id).mapped());
  lock.unlock();
  if (outcome.error) std::rethrow_exception(outcome.error);
  return outcome.bytes;
}

bool TicketBoard::wait_all(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (!sleep_until(lock, deadline, [&] { return in_flight_.empty(); })) return false;
  const auto outcomes = std::exchange(done_, {});
  lock.unlock();
  for (const auto& [id, outcome] : outcomes) {
    if (outcome.error) std::rethrow_exception(outcome.error);
  }
  return true;
}

void TicketBoard::drain() {
  std::unique_lock lock(mutex_);
  sleep_until(lock, Deadline::never(), [&] { return in_flight_.empty(); });
}

}  // namespace detail

namespace {

AsyncBackend backend_from_environment() {
  const char* set = std::getenv("WEFT_AIO");
  const std::string_view wanted = set == nullptr ? "" : set;
  if (wanted.empty()) return AsyncBackend::kAuto;
  if (wanted == "uring") return AsyncBackend::kUring;
  if (wanted == "threads") return AsyncBackend::kThreads;
  throw Error(ErrorKind::kInput, {.title = "WEFT_AIO names no way of asynchronous I/O",
                                  .what = cat("WEFT_AIO=", wanted),
                                  .where = "the environment",
                                  .fix = "set it to uring or threads, or unset it"});
}

}  // namespace

std::unique_ptr<AsyncIo> make_async_io(const AsyncOptions& options) {
  WEFT_CHECK(options.depth >= 1 && options.depth <= 4096);
  WEFT_CHECK(options.threads >= 1 && options.threads <= 256);
  const auto backend = options.backend == AsyncBackend::kAuto ? backend_from_environment() : options.backend;
  if (backend == AsyncBackend::kThreads) return detail::make_thread_aio(options);
  std::string why_not;
  if (auto io = detail::make_uring_aio(options, why_not)) return io;
  if (backend == AsyncBackend::kAuto) {
    log_debug("asynchronous I/O by a pool of threads: ", why_not);
    return detail::make_thread_aio(options);
  }
  throw Error(ErrorKind::kEnvironment,
              {.title = "io_uring was asked for and cannot be had",
               .what = why_not,
               .where = "",
               .fix = "unset WEFT_AIO (or set WEFT_AIO=threads): a pool of threads does the same work"});
}

}  // namespace weft
