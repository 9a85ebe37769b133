#include "weft/launcher/remote_host.h"

#include <fcntl.h>

#include <array>
#include <csignal>

#include "weft/base/check.h"
#include "weft/base/text.h"
#include "weft/launcher/shell_words.h"

namespace weft::launcher {
namespace {

// What shells answer for a program that is not there or may not be run.
constexpr int kNotRunnable = 126, kNotFound = 127;
constexpr int kSshFailed = 255;
constexpr size_t kMaxShownLines = 8;

Process start(const HostsSpec& spec, const Host& host) {
  ProcessSpec process{.argv = spec.ssh,
                      .in = Stream::pipe(),
                      .out = Stream::pipe(),
                      .err = Stream::pipe(),
                      .new_group = true,
                      .die_with_parent = true};
  process.argv.push_back(host.name);
  process.argv.push_back(cat("exec ", quote_for_shell(spec.remote_weft), " run --agent"));
  try {
    return Process::spawn(process);
  } catch (const IoError& error) {
    throw Error(ErrorKind::kInput, {.title = cat("cannot start ", spec.ssh[0]),
                                    .what = error.text().what,
                                    .where = "",
                                    .fix = "apt-get install openssh-client, or name another with --ssh"});
  }
}

std::string in_words(std::vector<std::string> words) {
  for (auto& word : words) word = quote_for_shell(word);
  return join(words, " ");
}

void make_nonblocking(const UniqueFd& fd) {
  if (::fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0) throw IoError("prepare a pipe", "", errno);
}

// One read: what came, "" when nothing is there now. At the end the pipe is closed.
std::string_view read_once(UniqueFd& fd, std::span<char> buffer) {
  if (!fd) return "";
  const ssize_t got = retry_interrupted([&] { return ::read(fd.get(), buffer.data(), buffer.size()); });
  if (got < 0 && errno == EAGAIN) return "";
  if (got <= 0) fd.reset();
  return got <= 0 ? "" : std::string_view(buffer.data(), static_cast<size_t>(got));
}

}  // namespace

RemoteHost::RemoteHost(const HostsSpec& spec, const Host& host)
    : host_(host), ssh_(spec.ssh), remote_weft_(spec.remote_weft), process_(start(spec, host)) {
  in_ = std::move(process_.in());
  out_ = std::move(process_.out());
  err_ = std::move(process_.err());
  for (const auto* fd : {&in_, &out_, &err_}) make_nonblocking(*fd);
}

void RemoteHost::watch(std::vector<pollfd>& polled, bool paused) const {
  polled.push_back({pending_.empty() ? -1 : in_.get(), POLLOUT, 0});
  polled.push_back({paused ? -1 : out_.get(), POLLIN, 0});
  polled.push_back({paused ? -1 : err_.get(), POLLIN, 0});
  polled.push_back({status_ ? -1 : process_.pidfd(), POLLIN, 0});
}

void RemoteHost::serve(std::span<const pollfd> polled, const OnFrame& on_frame, const OnLine& on_line) {
  WEFT_CHECK_EQ(polled.size(), kNumPolled);
  const bool was_paused = out_ && polled[1].fd < 0;
  if (was_paused) heard_.restart();  // we did not listen
  write_some();
  if (polled[1].revents != 0) read_frames(on_frame);
  if (polled[2].revents != 0) read_errors(on_line);
  if (polled[3].revents != 0 && !status_) on_end(on_frame, on_line);
}

void RemoteHost::read_frames(const OnFrame& on_frame) {
  std::array<char, 1 << 16> buffer;
  const auto bytes = read_once(out_, buffer);
  if (bytes.empty() || !nonsense_.empty()) return;
  heard_.restart();
  try {
    reader_.feed(bytes, [&](const Frame& frame) {
      is_ready_ = is_ready_ || frame.kind == FrameKind::kHello;
      on_frame(frame);
    });
  } catch (const Error& error) {
    nonsense_ = cat(error.text().title, ": ", error.text().what);
    kill();
  }
}

void RemoteHost::read_errors(const OnLine& on_line) {
  std::array<char, 1 << 14> buffer;
  const auto bytes = read_once(err_, buffer);
  error_lines_.feed(bytes, [&](std::string_view line) {
    last_errors_.add(safe_line(line, false));
    // Before hello it is ssh that talks: banners, or the reason why it fails, which loss() has.
    if (is_ready_) on_line(line);
  });
}

void RemoteHost::on_end(const OnFrame& on_frame, const OnLine& on_line) {
  // All it wrote is in the pipes by now; somebody else may hold their other end open (a shared ssh connection does).
  constexpr int kMaxReads = 64;
  for (int i = 0; i < kMaxReads && out_; ++i) read_frames(on_frame);
  for (int i = 0; i < kMaxReads && err_; ++i) read_errors(on_line);
  error_lines_.finish([&](std::string_view line) { last_errors_.add(safe_line(line, false)); });
  out_.reset();
  err_.reset();
  hang_up();
  status_ = process_.wait();
}

void RemoteHost::send(const Frame& frame) {
  if (!in_) return;
  append_frame(pending_, frame);
  write_some();
}

void RemoteHost::write_some() {
  while (!pending_.empty() && in_) {
    const int fd = in_.get();
    const ssize_t written = retry_interrupted([&] { return ::write(fd, pending_.data(), pending_.size()); });
    if (written < 0 && errno == EAGAIN) return;
    // Nobody reads there any more: the end of the ssh says why.
    if (written < 0) return hang_up();
    pending_.erase(0, static_cast<size_t>(written));
  }
}

void RemoteHost::hang_up() {
  pending_.clear();
  in_.reset();
}

void RemoteHost::kill() {
  hang_up();
  if (!status_) process_.kill_group(SIGKILL);
}

std::string RemoteHost::last_words() const {
  auto lines = last_errors_.lines();
  if (lines.empty() && !reader_.noise().empty()) {
    LineCutter cutter;
    const auto add = [&](std::string_view line) { lines.push_back(safe_line(line, false)); };
    cutter.feed(reader_.noise(), add);
    cutter.finish(add);
  }
  if (lines.size() > kMaxShownLines) lines.erase(lines.begin(), lines.end() - kMaxShownLines);
  return lines.empty() ? "" : cat("\n", join(lines, "\n"));
}

Error RemoteHost::loss() const {
  const ExitStatus status = status_.value_or(ExitStatus{});
  std::string what = status_ ? cat(ssh_[0], ": ", status.describe(), last_words()) : "it did not answer";
  if (!nonsense_.empty()) what = nonsense_;
  if (is_ready_) {
    return {ErrorKind::kEnvironment,
            {.title = cat("host ", name(), " was lost"), .what = what, .where = "", .fix = ""}};
  }
  const bool is_missing = status.signal == 0 && (status.code == kNotFound || status.code == kNotRunnable);
  if (is_missing) {
    return {ErrorKind::kEnvironment,
            {.title = cat("there is no weft on host ", name()),
             .what = what,
             .where = remote_weft_,
             .fix = "install it there, or say where it is: --remote-weft PATH"}};
  }
  const bool is_ssh = !status_ || status.code == kSshFailed;
  return {ErrorKind::kEnvironment,
          {.title = cat(is_ssh ? "cannot reach host " : "weft did not start on host ", name()),
           .what = what,
           .where = "",
           .fix = cat("see whether this works: ", in_words(ssh_), " ", name(), " ",
                      in_words({remote_weft_, "--version"}))}};
}

}  // namespace weft::launcher
