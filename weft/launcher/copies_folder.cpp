#include "weft/launcher/copies_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "weft/base/fd.h"
#include "weft/base/log.h"
#include "weft/base/text.h"

namespace weft::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "weft-buddy-", kLockName = "store.lock";
constexpr size_t kMaxWord = 100;

// Users do not see each other's.
std::string prefix() { return cat(kPrefix, ::getuid(), "-"); }

std::string plain(std::string_view word) {
  std::string out;
  for (const char c : word.substr(0, kMaxWord))
    out += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' ? c : '_';
  return out;
}

// The first rank that writes there holds it while it lives.
bool is_held(const fs::path& folder) {
  const UniqueFd lock(::open((folder / kLockName).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return lock.get() >= 0 && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;
}

bool is_ours(const fs::path& folder) {
  struct stat info{};
  return ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::getuid();
}

}  // namespace

std::string copies_folder(const LaunchSpec& spec) {
  if (spec.max_restarts == 0 || !spec.resume) return "";
  // Hosts may be parts of one machine.
  const std::string host = spec.num_hosts == 1      ? ""
                           : spec.host_name.empty() ? cat("-", spec.host_rank)
                                                    : cat("-", plain(spec.host_name));
  return cat("/dev/shm/", prefix(), plain(spec.run_id), host);
}

void remove_copies(const std::string& folder) {
  if (folder.empty()) return;
  std::error_code problem;
  fs::remove_all(folder, problem);
  if (problem) log_warn("cannot remove ", folder, ": ", problem.message());
}

void remove_stale_copies(const std::string& root, std::chrono::seconds stale_after) {
  std::error_code problem;
  for (fs::directory_iterator at(root, problem), end; !problem && at != end; at.increment(problem)) {
    const fs::path& folder = at->path();
    if (!folder.filename().string().starts_with(prefix()) || !is_ours(folder) || is_held(folder)) continue;
    std::error_code gone;
    const auto written = fs::last_write_time(folder, gone);
    if (gone || fs::file_time_type::clock::now() - written < stale_after) continue;
    log_info("removing ", folder.string(), ": copies of a run that is dead");
    remove_copies(folder.string());
  }
}

CopiesFolder::CopiesFolder(const LaunchSpec& spec) : folder_(copies_folder(spec)) {
  remove_stale_copies();
  remove_copies(folder_);
}

CopiesFolder::~CopiesFolder() { remove_copies(folder_); }

}  // namespace weft::launcher
