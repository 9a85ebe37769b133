#include "tests/support/child_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tests/support/stack_dump.h"

namespace weft::test {
namespace {

bool readable_now(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

void wait_until_readable(std::vector<pollfd>& entries, int timeout_ms) {
  if (::poll(entries.data(), entries.size(), timeout_ms) < 0 && errno != EINTR) throw_errno("poll", "child processes");
}

}  // namespace

void BoundedText::append(std::string_view text) {
  const size_t to_head = std::min(text.size(), kHeadBytes - head_.size());
  head_ += text.substr(0, to_head);
  tail_ += text.substr(to_head);
  // Cut only at twice the limit, so that a stream of small pieces does not move the tail each time.
  if (tail_.size() <= 2 * kTailBytes) return;
  num_dropped_bytes_ += tail_.size() - kTailBytes;
  tail_.erase(0, tail_.size() - kTailBytes);
}

std::string BoundedText::text() const {
  if (num_dropped_bytes_ == 0) return head_ + tail_;
  return concat(head_, "\n... ", num_dropped_bytes_, " bytes left out ...\n", tail_);
}

void ChildProcess::Stream::drain() {
  // A child that prints faster than we read must not keep us from the deadline.
  constexpr int kMaxReads = 64;
  char buffer[16 << 10];
  for (int i = 0; i < kMaxReads && fd.open(); ++i) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got > 0) {
      text.append({buffer, static_cast<size_t>(got)});
    } else if (got == 0) {
      fd.reset();
    } else if (errno != EINTR) {
      return;
    }
  }
}

ChildProcess::ChildProcess(const std::vector<std::string>& argv, const std::vector<std::string>& env)
    : started_(Deadline::Clock::now()) {
  Pipe out = make_pipe(), err = make_pipe();
  pid_ = spawn(
      {.program = argv.at(0), .argv = argv, .env = env, .out_fd = out.write_end.get(), .err_fd = err.write_end.get()});
  out_.fd = std::move(out.read_end);
  err_.fd = std::move(err.read_end);
  pidfd_ = open_pidfd(pid_);
  if (pidfd_.open()) return;
  const int code = errno;
  kill_group();
  reap();
  errno = code;
  throw_errno("watch", concat("process ", pid_, " (pidfd_open needs Linux 5.3)"));
}

ChildProcess::~ChildProcess() {
  if (ended_) return;
  kill_group();
  reap();
}

bool ChildProcess::signal(int sig) { return signal_pidfd(pidfd_, sig); }

ProgramResult ChildProcess::result() const {
  ProgramResult out = result_;
  out.out = out_.text.text();
  out.err = err_.text.text();
  return out;
}

std::vector<int> ChildProcess::descriptors() const {
  std::vector<int> out{pidfd_.get()};
  for (const Stream* stream : {&out_, &err_}) {
    if (stream->fd.open()) out.push_back(stream->fd.get());
  }
  return out;
}

void ChildProcess::service() {
  // Asked before the last read: what it printed is then all there.
  const bool over = readable_now(pidfd_.get());
  if (over) kill_group();
  out_.drain();
  err_.drain();
  if (over) reap();
}

// Also after the child has ended: until it is reaped its number is still its own, and so is the group it leads.
void ChildProcess::kill_group() { ::kill(-pid_, SIGKILL); }

void ChildProcess::end_hung() {
  result_.hung = true;
  result_.stacks = stacks_of(pid_);
  kill_group();
}

void ChildProcess::reap() {
  int status = 0;
  pid_t got = -1;
  do {
    got = ::waitpid(pid_, &status, 0);
  } while (got < 0 && errno == EINTR);
  ended_ = true;
  result_.seconds = Seconds(Deadline::Clock::now() - started_).count();
  if (got != pid_) return;  // somebody else took its status; -1 says that we know nothing
  if (WIFEXITED(status)) result_.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result_.signal = WTERMSIG(status);
}

void mind_children(const Children& children, const Deadline& deadline, int stop_fd,
                   const std::function<void(int)>& on_end) {
  bool stopping = false;
  while (true) {
    std::vector<pollfd> entries;
    for (const auto& child : children) {
      if (child->ended()) continue;
      for (const int fd : child->descriptors()) entries.push_back({fd, POLLIN, 0});
    }
    if (entries.empty()) return;
    if (stop_fd >= 0 && !stopping) entries.push_back({stop_fd, POLLIN, 0});
    wait_until_readable(entries, stopping ? -1 : deadline.left_ms());

    for (size_t i = 0; i < children.size(); ++i) {
      if (children[i]->ended()) continue;
      children[i]->service();
      if (children[i]->ended()) on_end(static_cast<int>(i));
    }
    const bool told_to_stop = stop_fd >= 0 && readable_now(stop_fd);
    if (stopping || (!told_to_stop && !deadline.passed())) continue;
    stopping = true;
    for (const auto& child : children) {
      if (!child->ended()) told_to_stop ? child->kill_group() : child->end_hung();
    }
  }
}

ProgramResult run_program(const std::vector<std::string>& argv, const ProgramOptions& options) {
  Children children;
  const Deadline deadline(ranks_deadline(options.deadline));
  children.push_back(std::make_unique<ChildProcess>(argv, environment_with(options.env)));
  mind_children(children, deadline, -1, [](int) {});
  return children[0]->result();
}

}  // namespace weft::test
