#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/file_time.h"
#include "weft/monitor/live/run_view.h"

namespace weft {
namespace {

constexpr const char* kRunFiles[] = {"metrics.jsonl", "result.json", "ranks.json", "log.txt"};

// When the newest of its files was written; nothing for a folder that is no run.
std::optional<double> written_unix_s(Env& env, const std::string& folder) {
  std::optional<double> newest;
  for (const char* name : kRunFiles) {
    const auto info = env.stat(cat(folder, "/", name));
    if (!info || info->kind != FileKind::kFile) continue;
    newest = std::max(newest.value_or(0.0), modified_unix_s(*env.open(cat(folder, "/", name), OpenMode::kRead)));
  }
  return newest;
}

std::optional<std::string> newest_run_under(Env& env, const std::string& folder) {
  std::optional<std::string> found;
  double newest_s = -1;
  for (const auto& name : env.list(folder)) {
    const std::string path = cat(folder, folder.ends_with('/') ? "" : "/", name);
    const auto info = env.stat(path);
    if (!info || info->kind != FileKind::kFolder) continue;
    const auto when_s = written_unix_s(env, path);
    if (when_s && *when_s > newest_s) {
      newest_s = *when_s;
      found = path;
    }
  }
  return found;
}

// "MemTotal:       16384256 kB" of /proc/meminfo; 0 where there is none. Files there have no size: one piece is read.
double total_memory_bytes() {
  try {
    const auto file = Env::posix().open("/proc/meminfo", OpenMode::kRead);
    std::string text(4096, '\0');
    text.resize(file->read_at(0, std::as_writable_bytes(std::span(text))));
    const size_t at = text.find_first_of("0123456789", text.find("MemTotal:"));
    double kilobytes = 0;
    if (at != std::string::npos) std::from_chars(text.data() + at, text.data() + text.size(), kilobytes);
    return kilobytes * 1024;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

HostFacts HostFacts::of_this_machine() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return {.name = name, .memory_bytes = total_memory_bytes()};
}

std::string find_run_folder(Env& env, const std::string& path) {
  const auto info = env.stat(path);
  const bool is_folder = info && info->kind == FileKind::kFolder;
  if (is_folder && written_unix_s(env, path)) return path;
  if (is_folder) {
    if (const auto found = newest_run_under(env, path)) return *found;
  }
  throw Error(
      ErrorKind::kInput,
      {.title = is_folder ? "there is no run in that folder" : "there is no such folder",
       .what = is_folder ? "neither it nor a folder in it has a metrics.jsonl, result.json, ranks.json or log.txt" : "",
       .where = path,
       .fix = "give the folder of a run (runs/NAME), or the folder of all runs"});
}

}  // namespace weft
