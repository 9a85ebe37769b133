#include "weft/comm/fabric/liveness.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>

#include <charconv>
#include <string>

#include "weft/base/text.h"

namespace weft::fabric {
namespace {

// Read by hand and not through Env: this runs while a wait is pending, and must not throw.
std::string stat_line(pid_t pid) {
  const UniqueFd file(::open(cat("/proc/", pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return "";
  char text[1024];
  const ssize_t got = retry_interrupted([&] { return ::read(file.get(), text, sizeof text); });
  return got > 0 ? std::string(text, static_cast<size_t>(got)) : "";
}

// The fields after the command's name, which may itself hold spaces and brackets: the last ')' ends it.
std::string_view fields_after_name(std::string_view line) {
  const size_t end = line.rfind(')');
  return end == std::string_view::npos ? "" : line.substr(end + 1);
}

std::string_view nth_word(std::string_view words, int n) {
  for (int i = 0;; ++i) {
    const size_t start = words.find_first_not_of(' ');
    if (start == std::string_view::npos) return "";
    words.remove_prefix(start);
    const size_t end = words.find(' ');
    if (i == n) return words.substr(0, end);
    if (end == std::string_view::npos) return "";
    words.remove_prefix(end);
  }
}

}  // namespace

uint64_t start_time_of(pid_t pid) {
  const std::string line = stat_line(pid);
  const std::string_view fields = fields_after_name(line);
  const std::string_view state = nth_word(fields, 0);
  if (state == "Z" || state == "X") return 0;
  constexpr int kStartTime = 19;  // field 22 of proc(5), counted from the state, field 3
  const std::string_view digits = nth_word(fields, kStartTime);
  uint64_t ticks = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), ticks);
  return ticks;
}

PeerWatch::PeerWatch(pid_t pid, uint64_t start_time) : pid_(pid), start_time_(start_time) {
  const long fd = ::syscall(SYS_pidfd_open, pid, 0);
  if (fd >= 0) pidfd_.reset(static_cast<int>(fd));
  was_gone_ = fd < 0 && errno == ESRCH;
  // The number may have passed to another process before we opened it. Unreadable (0) proves nothing.
  const uint64_t now = start_time_of(pid);
  if (start_time_ != 0 && now != 0 && now != start_time_) was_gone_ = true;
}

bool PeerWatch::alive_by_proc() const {
  if (const uint64_t now = start_time_of(pid_); start_time_ != 0 && now != 0) return now == start_time_;
  const bool visible = ::access("/proc/self/stat", R_OK) == 0 && start_time_ != 0;
  return !visible && (::kill(pid_, 0) == 0 || errno == EPERM);
}

bool PeerWatch::alive() const {
  if (was_gone_) return false;
  if (!pidfd_) return alive_by_proc();
  pollfd entry{pidfd_.get(), POLLIN, 0};
  return retry_interrupted([&] { return ::poll(&entry, 1, 0); }) <= 0;
}

}  // namespace weft::fabric
