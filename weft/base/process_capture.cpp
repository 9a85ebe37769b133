// run_and_capture: both outputs of a child, while it runs.
#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "weft/base/error.h"
#include "weft/base/process.h"

namespace weft {
namespace {

class Sink {
 public:
  Sink(UniqueFd& pipe, std::string& text, size_t limit_bytes) : pipe_(pipe), text_(text), limit_bytes_(limit_bytes) {
    // What one poll announced may be less than what a read asks for; the read must not block then.
    if (::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK) != 0) throw IoError("prepare a pipe", "", errno);
  }

  // poll(2) passes over a negative descriptor.
  int fd() const { return pipe_.get(); }
  bool overflowed() const { return overflowed_; }

  // One read. False: nothing there now, or ever again.
  bool take() {
    if (!pipe_) return false;
    std::array<char, 1 << 16> buffer;
    const ssize_t got = retry_interrupted([&] { return ::read(pipe_.get(), buffer.data(), buffer.size()); });
    if (got < 0 && errno == EAGAIN) return false;
    if (got < 0) throw IoError("read from a program", "", errno);
    if (got == 0) pipe_.reset();
    const size_t kept = std::min(static_cast<size_t>(got), limit_bytes_ - text_.size());
    text_.append(buffer.data(), kept);
    // Past the limit we read on and drop: a full pipe would stop the child.
    overflowed_ = overflowed_ || kept < static_cast<size_t>(got);
    return got > 0;
  }

  // What lies in the pipe after the child's end. Bounded, for a grandchild may still be writing; 1 MiB is the most an
  // ordinary pipe can hold.
  void take_rest() {
    for (int reads = 0; reads < 256 && take(); ++reads) {
    }
  }

 private:
  UniqueFd& pipe_;
  std::string& text_;
  size_t limit_bytes_;
  bool overflowed_ = false;
};

// Moves bytes until the child ends; false when the deadline came first.
bool pump(Process& child, Sink& out, Sink& err, Deadline deadline) {
  for (;;) {
    std::array<pollfd, 3> watched{{{child.pidfd(), POLLIN, 0}, {out.fd(), POLLIN, 0}, {err.fd(), POLLIN, 0}}};
    const int ready = ::poll(watched.data(), watched.size(), deadline.poll_ms());
    if (ready < 0 && errno != EINTR) throw IoError("wait for a program", "", errno);
    if (ready > 0 && watched[1].revents != 0) out.take();
    if (ready > 0 && watched[2].revents != 0) err.take();
    if (ready > 0 && watched[0].revents != 0) return true;
    if (deadline.expired()) return false;
  }
}

}  // namespace

Captured run_and_capture(ProcessSpec spec, Deadline deadline, size_t limit_bytes) {
  spec.out = Stream::pipe();
  spec.err = Stream::pipe();
  Process child = Process::spawn(spec);
  child.in().reset();

  Captured captured;
  Sink out(child.out(), captured.out, limit_bytes), err(child.err(), captured.err, limit_bytes);
  captured.timed_out = !pump(child, out, err, deadline);
  if (captured.timed_out) child.signal(SIGKILL);
  if (captured.timed_out && spec.new_group) child.kill_group(SIGKILL);
  captured.status = *child.wait();
  out.take_rest();
  err.take_rest();
  captured.truncated = out.overflowed() || err.overflowed();
  return captured;
}

}  // namespace weft
