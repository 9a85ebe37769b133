#include "weft/launcher/descendants.h"

#include <dirent.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "weft/base/error.h"
#include "weft/base/fd.h"
#include "weft/base/text.h"

namespace weft::launcher {
namespace {

struct Entry {
  pid_t pid = 0, parent = 0;
  char state = 0;
};

// 0 for a name that is no number.
pid_t pid_of(const std::string& name) {
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  return error == std::errc() && end == name.data() + name.size() ? pid : 0;
}

// "12 (name) S 1 ...": the name may hold anything, also ')'. A process that is gone has parent 0.
Entry entry_of(pid_t pid) {
  std::ifstream file(cat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text, '\0');
  const size_t after_name = text.rfind(')');
  Entry entry{.pid = pid};
  if (after_name == std::string::npos) return entry;
  std::istringstream rest(text.substr(after_name + 1));
  rest >> entry.state >> entry.parent;
  return entry;
}

std::vector<Entry> all_processes() {
  std::vector<Entry> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  while (const dirent* found = folder == nullptr ? nullptr : ::readdir(folder.get())) {
    if (const pid_t pid = pid_of(found->d_name); pid > 0) out.push_back(entry_of(pid));
  }
  return out;
}

std::vector<Entry> entries_below_us() {
  const auto all = all_processes();
  std::vector<Entry> out{{.pid = ::getpid()}};
  for (size_t next = 0; next < out.size(); ++next) {
    const pid_t parent = out[next].pid;
    std::ranges::copy_if(all, std::back_inserter(out), [&](const Entry& entry) { return entry.parent == parent; });
  }
  out.erase(out.begin());
  return out;
}

bool contains(std::span<const pid_t> pids, pid_t pid) { return std::ranges::find(pids, pid) != pids.end(); }

// Kills it and waits for its end. Its number may have gone to another process since we saw it: the descriptor holds on
// to one process, and its parent tells whether it is still the one.
void end_one(const Entry& entry, Deadline deadline) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, entry.pid, 0)));
  if (!pidfd || entry_of(entry.pid).parent != entry.parent) return;
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
  pollfd ended{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  while (::poll(&ended, 1, deadline.poll_ms()) < 0 && errno == EINTR) {
  }
}

}  // namespace

Subreaper::Subreaper() {
  if (::prctl(PR_GET_CHILD_SUBREAPER, &before_) != 0 || ::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    throw IoError("become the parent of orphans", "", errno);
  }
}

Subreaper::~Subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, before_); }

std::vector<pid_t> descendants() {
  std::vector<pid_t> out;
  for (const auto& entry : entries_below_us()) out.push_back(entry.pid);
  return out;
}

void reap_orphans(std::span<const pid_t> ours) {
  for (const auto& entry : entries_below_us()) {
    const bool is_orphan = entry.state == 'Z' && entry.parent == ::getpid() && !contains(ours, entry.pid);
    if (is_orphan) ::waitpid(entry.pid, nullptr, WNOHANG);
  }
}

bool end_descendants(std::span<const pid_t> ours, Deadline deadline) {
  for (;;) {
    auto left = entries_below_us();
    std::erase_if(left, [&](const Entry& entry) { return entry.state == 'Z' || contains(ours, entry.pid); });
    if (left.empty() || deadline.expired()) {
      reap_orphans(ours);
      return left.empty();
    }
    for (const auto& entry : left) end_one(entry, deadline);
    reap_orphans(ours);
  }
}

}  // namespace weft::launcher
