#include "weft/base/env.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/base/units.h"

namespace weft {
namespace {

constexpr uint64_t kFirstRead = 1 << 16;

// Cleaning up after a failure: that failure is what the caller must hear about, so this one only leaves a trace.
void try_remove(Env& env, const std::string& path) {
  try {
    env.remove_file(path);
  } catch (const IoError& error) {
    log_debug("left behind ", path, ": ", error.text().what);
  }
}

}  // namespace

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string folder_of(const std::string& path) {
  const size_t last = path.find_last_not_of('/');
  const size_t slash = path.find_last_of('/', last);
  if (slash == std::string::npos) return ".";
  const size_t end = path.find_last_not_of('/', slash);
  return end == std::string::npos ? "/" : path.substr(0, end + 1);
}

std::string read_file(Env& env, const std::string& path, uint64_t limit_bytes) {
  const auto file = env.open(path, OpenMode::kRead);
  std::string text;
  // Until the end and not up to size(): files under /proc claim to be empty, and a log may grow while we read.
  for (;;) {
    const size_t have = text.size();
    const uint64_t step = std::min<uint64_t>(limit_bytes - have, std::max<uint64_t>(have, kFirstRead)) + 1;
    text.resize(have + step);
    const size_t got = file->read_at(have, std::as_writable_bytes(std::span(text).subspan(have)));
    text.resize(have + got);
    if (text.size() > limit_bytes) break;
    if (got < step) return text;
  }
  throw Error(ErrorKind::kInput, {.title = "the file is too large",
                                  .what = cat("more than ", format_bytes(limit_bytes), ", the most expected here"),
                                  .where = path,
                                  .fix = "check that this is the right file"});
}

void write_file(Env& env, const std::string& path, std::span<const std::byte> bytes) {
  env.open(path, OpenMode::kCreate)->write_at(0, bytes);
}

void make_folders_durably(Env& env, const std::string& path) {
  std::vector<std::string> parents;  // of the folders that are missing
  for (std::string folder = path; !env.stat(folder); folder = folder_of(folder)) parents.push_back(folder_of(folder));
  env.make_folders(path);
  for (const auto& parent : parents) env.sync_folder(parent);
}

void publish_file(Env& env, const std::string& path, const std::function<void(File&)>& fill) {
  const std::string temp = path + ".tmp";
  try {
    const auto file = env.open(temp, OpenMode::kCreate);
    fill(*file);
    file->sync();
    env.rename(temp, path);
  } catch (...) {
    try_remove(env, temp);
    throw;
  }
  env.sync_folder(folder_of(path));
}

void publish_file(Env& env, const std::string& path, std::span<const std::byte> bytes) {
  publish_file(env, path, [&](File& file) { file.write_at(0, bytes); });
}

}  // namespace weft
