#include "weft/checkpoint/store_lock.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "weft/base/error.h"
#include "weft/base/fd.h"
#include "weft/base/text.h"
#include "weft/base/utf8.h"
#include "weft/checkpoint/store_names.h"

namespace weft::checkpoint {
namespace {

constexpr size_t kMaxHolderBytes = 300;

std::string this_process() {
  char host[256] = {};
  const bool has_name = ::gethostname(host, sizeof host - 1) == 0;
  return cat("process ", ::getpid(), " on ", has_name ? host : "an unnamed host");
}

// Never emptied on opening: until we hold the lock the text is somebody else's.
std::unique_ptr<File> open_or_create(Env& env, const std::string& path) {
  const auto info = env.stat(path);
  if (info && (info->is_link || info->kind != FileKind::kFile)) throw IoError("lock the store", path, ELOOP);
  try {
    return env.open(path, info ? OpenMode::kReadWrite : OpenMode::kCreateNew);
  } catch (const IoError& error) {
    if (info || error.code() != EEXIST) throw;
    return env.open(path, OpenMode::kReadWrite);  // another run was quicker to make it
  }
}

// For people to read: whatever stands there, it must not steer their terminal.
std::string holder_in(File& file) {
  std::string text(kMaxHolderBytes, '\0'), out;
  text.resize(file.read_at(0, std::as_writable_bytes(std::span(text))));
  for (std::string_view rest = text; !rest.empty();) {
    const CodePoint point = take_code_point(rest);
    if (point.valid && !is_control(point.value)) out += point.bytes;
  }
  return out.empty() ? "a process that has not said its name yet" : out;
}

}  // namespace

StoreLock::StoreLock(Env& env, const std::string& store) {
  make_folders_durably(env, store);
  const std::string path = cat(store, "/", kLockName);
  auto file = open_or_create(env, path);
  if (file->fd() >= 0 && retry_interrupted([&] { return ::flock(file->fd(), LOCK_EX | LOCK_NB); }) < 0) {
    if (errno != EWOULDBLOCK) throw IoError("lock the store", path, errno);
    throw Error(ErrorKind::kInput, {.title = "another run is writing to this store",
                                    .what = cat("it is held by ", holder_in(*file)),
                                    .where = path,
                                    .fix = "end that run, or save to another folder"});
  }
  file->truncate(0);
  file->write_at(0, bytes_of(cat(this_process(), "\n")));
  file_ = std::move(file);
}

}  // namespace weft::checkpoint
