// Asynchronous reads and writes of Files: submit many, wait for each. io_uring where the kernel allows it, a pool of
// threads otherwise; both keep the same contract and pass the same tests.
//
//   auto io = env.async_io({.depth = 16});
//   const auto ticket = io->submit_write(*file, offset, bytes);
//   ...
//   io->wait(ticket);                                   // throws IoError with the path when the write failed
//
// Ownership: the File and the bytes belong to the caller and must outlive the operation: until its wait returned a
// result or threw, or the AsyncIo is gone (its destructor waits for everything in flight).
// Order: none. Operations run in any order and side by side; a sync covers the writes that were waited for before it
// was submitted, and no others.
// Threads: every member from any thread; each ticket is waited for by one thread. wait_all takes every ticket that
// nobody has waited for, so it is for callers who own them all.
// Failure: at wait. An error nobody waited for is logged when the AsyncIo goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "weft/base/clock.h"
#include "weft/base/env.h"

namespace weft {

enum class AsyncBackend {
  kAuto,   // WEFT_AIO=uring or WEFT_AIO=threads if set; else io_uring, or threads when the kernel refuses it
  kUring,  // an Error when there is none
  kThreads,
};

struct AsyncOptions {
  AsyncBackend backend = AsyncBackend::kAuto;
  // Operations in flight before a submit blocks. More keeps a fast disk busy; each holds a buffer of the caller's.
  int depth = 32;
  // Only for the thread pool: operations that truly run side by side.
  int threads = 4;
};

class AsyncIo {
 public:
  struct Ticket {
    uint64_t id = 0;
  };

  AsyncIo() = default;
  virtual ~AsyncIo() = default;
  AsyncIo(const AsyncIo&) = delete;
  AsyncIo& operator=(const AsyncIo&) = delete;

  // Each blocks while `depth` operations are in flight.
  virtual Ticket submit_read(File& file, uint64_t offset, std::span<std::byte> into) = 0;
  virtual Ticket submit_write(File& file, uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Ticket submit_sync(File& file) = 0;

  // Bytes moved (a read is short only at the end of the file, a sync moves none), or nothing when the deadline passed
  // first: then the operation is still in flight and the ticket still good. Otherwise the ticket is used up.
  virtual std::optional<size_t> wait(Ticket ticket, Deadline deadline = Deadline::never()) = 0;
  // Waits for all and uses up all tickets, then throws the error of the oldest that failed. False: the deadline passed
  // first, and no ticket was used up.
  virtual bool wait_all(Deadline deadline = Deadline::never()) = 0;

  virtual std::string_view backend_name() const = 0;
};

// For Files that have a descriptor. Product code asks its Env instead.
std::unique_ptr<AsyncIo> make_async_io(const AsyncOptions& options);

}  // namespace weft
