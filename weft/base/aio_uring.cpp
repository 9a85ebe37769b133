// Asynchronous I/O through io_uring. One mutex guards the submission queue and the table of operations; one thread
// reaps completions, continues what came back short, and tells the board. So progress does not depend on a waiter.
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <unordered_map>

#include "weft/base/aio_impl.h"
#include "weft/base/check.h"
#include "weft/base/error.h"

namespace weft::detail {
namespace {

enum class Kind { kRead, kWrite, kSync };

struct Operation {
  Kind kind = Kind::kSync;
  File* file = nullptr;
  uint64_t offset = 0;
  // For a read we own the right to write here; a write's bytes are only read, whatever the type says.
  std::byte* data = nullptr;
  size_t bytes = 0;
  size_t done = 0;
};

// Tickets count from 1, so neither can be one.
constexpr uint64_t kStop = 0;
constexpr uint64_t kIgnore = UINT64_MAX;
// The kernel moves at most 2 GiB - 4 KiB at once; a round number below keeps the pieces aligned.
constexpr size_t kMaxPiece = size_t{1} << 30;

std::string_view doing(Kind kind) {
  switch (kind) {
    case Kind::kRead: return "read the file";
    case Kind::kWrite: return "write the file";
    case Kind::kSync: return "flush the file to the disk";
  }
  return "";
}

Outcome failure(const Operation& operation, int code) {
  return {.bytes = 0, .error = std::make_exception_ptr(IoError(doing(operation.kind), operation.file->path(), code))};
}

void prepare(io_uring_sqe* sqe, const Operation& operation) {
  const int fd = operation.file->fd();
  const auto piece = static_cast<unsigned>(std::min(operation.bytes - operation.done, kMaxPiece));
  std::byte* data = operation.data + operation.done;
  const uint64_t offset = operation.offset + operation.done;
  switch (operation.kind) {
    case Kind::kRead: io_uring_prep_read(sqe, fd, data, piece, offset); break;
    case Kind::kWrite: io_uring_prep_write(sqe, fd, data, piece, offset); break;
    case Kind::kSync: io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC); break;
  }
}

// What a completion means for its operation.
enum class Next { kDone, kContinue, kFailed };

Next absorb(Operation& operation, int& result) {
  if (result == -EINTR || result == -EAGAIN) return Next::kContinue;
  if (result < 0) return Next::kFailed;
  operation.done += static_cast<size_t>(result);
  if (operation.kind == Kind::kSync || operation.done == operation.bytes) return Next::kDone;
  if (result > 0) return Next::kContinue;
  if (operation.kind == Kind::kRead) return Next::kDone;  // the end of the file
  result = -EIO;  // a write that moves nothing and reports nothing would otherwise go round for ever
  return Next::kFailed;
}

struct RingCloser {
  void operator()(io_uring* ring) const {
    io_uring_queue_exit(ring);
    delete ring;
  }
};
using Ring = std::unique_ptr<io_uring, RingCloser>;

class UringAio : public AsyncIo {
 public:
  UringAio(const AsyncOptions& options, Ring ring)
      : board_(options.depth), ring_(std::move(ring)), reaper_([this] { reap(); }) {}
  UringAio(const UringAio&) = delete;
  UringAio& operator=(const UringAio&) = delete;
  ~UringAio() override {
    board_.drain();
    {
      const std::lock_guard lock(mutex_);
      io_uring_sqe* sqe = take_sqe();
      io_uring_prep_nop(sqe);
      io_uring_sqe_set_data64(sqe, kStop);
      // Nothing else is in flight, so only a kernel out of memory can refuse for a moment.
      while (io_uring_submit(ring_.get()) < 0) std::this_thread::yield();
    }
    reaper_.join();
  }

  Ticket submit_read(File& file, uint64_t offset, std::span<std::byte> into) override {
    return submit({Kind::kRead, &file, offset, into.data(), into.size(), 0});
  }
  Ticket submit_write(File& file, uint64_t offset, std::span<const std::byte> bytes) override {
    return submit({Kind::kWrite, &file, offset, const_cast<std::byte*>(bytes.data()), bytes.size(), 0});
  }
  Ticket submit_sync(File& file) override { return submit({Kind::kSync, &file, 0, nullptr, 0, 0}); }

  std::optional<size_t> wait(Ticket ticket, Deadline deadline) override { return board_.wait(ticket, deadline); }
  bool wait_all(Deadline deadline) override { return board_.wait_all(deadline); }
  std::string_view backend_name() const override { return "io_uring"; }

 private:
  Ticket submit(const Operation& operation) {
    WEFT_CHECK_GE(operation.file->fd(), 0);
    const Ticket ticket = board_.begin();
    const std::lock_guard lock(mutex_);
    const auto slot = operations_.emplace(ticket.id, operation).first;
    push(slot->first, slot->second);
    return ticket;
  }

  // Requires: mutex_ held. There is a free entry: the queue holds one more than the board lets in, and push empties it.
  io_uring_sqe* take_sqe() {
    io_uring_sqe* sqe = io_uring_get_sqe(ring_.get());
    WEFT_CHECK(sqe != nullptr);
    return sqe;
  }

  // Requires: mutex_ held.
  void push(uint64_t id, const Operation& operation) {
    io_uring_sqe* sqe = take_sqe();
    prepare(sqe, operation);
    io_uring_sqe_set_data64(sqe, id);
    const int code = enter();
    if (code == 0) return;
    // The kernel has not taken the entry; defuse it before it goes out with a later one, then report.
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, kIgnore);
    board_.finish({id}, failure(operation, code));
    operations_.erase(id);
  }

  // Hands the queue to the kernel. A kernel short of memory says EAGAIN or EBUSY for a moment; ten thousand moments are
  // no longer one. Returns an errno, or 0.
  int enter() {
    int result = 0;
    for (int attempt = 0; attempt < 10'000; ++attempt) {
      result = io_uring_submit(ring_.get());
      if (result > 0) return 0;
      if (result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY) break;
      std::this_thread::yield();
    }
    return result < 0 ? -result : EAGAIN;
  }

  void reap() {
    for (;;) {
      io_uring_cqe* cqe = nullptr;
      const int code = io_uring_wait_cqe(ring_.get(), &cqe);
      if (code == -EINTR || code == -EAGAIN) continue;
      WEFT_CHECK_EQ(code, 0);
      const uint64_t id = io_uring_cqe_get_data64(cqe);
      const int result = cqe->res;
      io_uring_cqe_seen(ring_.get(), cqe);
      if (id == kStop) return;
      if (id != kIgnore) complete(id, result);
    }
  }

  void complete(uint64_t id, int result) {
    const std::lock_guard lock(mutex_);
    const auto at = operations_.find(id);
    WEFT_CHECK(at != operations_.end());
    Operation& operation = at->second;
    const Next next = absorb(operation, result);
    if (next == Next::kContinue) return push(id, operation);
    // The operation leaves the table first: once the board knows, its file may be gone.
    Outcome outcome = next == Next::kFailed ? failure(operation, -result) : Outcome{operation.done, nullptr};
    operations_.erase(at);
    board_.finish({id}, std::move(outcome));
  }

  TicketBoard board_;
  std::mutex mutex_;
  Ring ring_;  // submission side under mutex_; completion side the reaper's alone
  std::unordered_map<uint64_t, Operation> operations_;
  std::thread reaper_;
};

bool supports_what_we_use(io_uring* ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(ring);
  if (probe == nullptr) return false;
  const bool all = io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                   io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0 &&
                   io_uring_opcode_supported(probe, IORING_OP_FSYNC) != 0;
  io_uring_free_probe(probe);
  return all;
}

// What a kernel without io_uring, a sandbox that forbids it, or a limit on locked memory answers.
bool is_refusal(int code) { return code == ENOSYS || code == EPERM || code == EACCES || code == ENOMEM; }

}  // namespace

std::unique_ptr<AsyncIo> make_uring_aio(const AsyncOptions& options, std::string& why_not) {
  auto fresh = std::make_unique<io_uring>();
  io_uring_params params{};
  // One more than the board lets in: the destructor's wake-up needs a place too.
  const int code = -io_uring_queue_init_params(static_cast<unsigned>(options.depth) + 1, fresh.get(), &params);
  if (is_refusal(code)) {
    why_not = cat("the kernel refuses io_uring: ", std::strerror(code));
    return nullptr;
  }
  if (code != 0) throw IoError("set up io_uring", "", code);
  Ring ring(fresh.release());
  if (!supports_what_we_use(ring.get())) {
    why_not = "this kernel's io_uring cannot read and write files";
    return nullptr;
  }
  return std::make_unique<UringAio>(options, std::move(ring));
}

}  // namespace weft::detail
