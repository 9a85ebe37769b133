// The one seam to the operating system's files: product code reaches the disk through an Env, so that tests can put a
// disk there that fails and crashes on command.
//
//   Env& env = Env::posix();
//   const std::string text = read_file(env, "run/plan.json", 16 << 20);
//   publish_file(env, "run/plan.json", bytes_of(text));   // readers and crashes see the old or the new, never a mix
//
// Durable means: still there after the power goes. Bytes are durable after File::sync; a name (created, renamed or
// removed) after sync_folder of the folder that holds it. Nothing else promises anything.
//
// Threads: an Env may be used from any thread; one File takes concurrent reads and writes of disjoint ranges.
// Failure: IoError with the path and errno. A failed sync means the bytes may be lost for good: write them again to a
// fresh file, a second sync proves nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class AsyncIo;
struct AsyncOptions;

class File {
 public:
  explicit File(std::string path) : path_(std::move(path)) {}
  virtual ~File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Fills `into` from `offset` and returns the bytes read: fewer than asked only at the end of the file.
  virtual size_t read_at(uint64_t offset, std::span<std::byte> into) = 0;
  // Writes all of `bytes` or throws; what a failed write left behind is unknown.
  virtual void write_at(uint64_t offset, std::span<const std::byte> bytes) = 0;
  // Makes the bytes and the size durable.
  virtual void sync() = 0;
  virtual uint64_t size() = 0;
  virtual void truncate(uint64_t bytes) = 0;
  // The descriptor, for those who must hand it to the kernel; -1 when there is none.
  virtual int fd() const = 0;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

enum class OpenMode {
  kRead,       // must exist
  kReadWrite,  // must exist
  kCreate,     // made when absent, emptied when present
  kCreateNew,  // must not exist
};

enum class FileKind { kFile, kFolder, kOther };

struct FileInfo {
  FileKind kind = FileKind::kFile;
  uint64_t bytes = 0;
  bool is_link = false;  // the name is a symbolic link; the rest describes what it leads to
};

class Env {
 public:
  Env() = default;
  virtual ~Env() = default;
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;

  static Env& posix();

  virtual std::unique_ptr<File> open(const std::string& path, OpenMode mode) = 0;
  // Nothing when there is no such name. Follows symbolic links.
  virtual std::optional<FileInfo> stat(const std::string& path) = 0;
  // The names inside, sorted, without "." and "..".
  virtual std::vector<std::string> list(const std::string& folder) = 0;
  // Makes the folder and every missing one above it; no harm when it is there already.
  virtual void make_folders(const std::string& path) = 0;
  // Replaces `to` when it exists. Readers see one or the other at any moment.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove_file(const std::string& path) = 0;
  // Requires: the folder is empty.
  virtual void remove_folder(const std::string& path) = 0;
  // Makes the names inside durable.
  virtual void sync_folder(const std::string& path) = 0;
  // Bytes an ordinary user may still write there.
  virtual uint64_t free_bytes(const std::string& path) = 0;
  virtual std::unique_ptr<AsyncIo> async_io(const AsyncOptions& options) = 0;
};

// The bytes of a text, and of any other contiguous thing through std::as_bytes.
std::span<const std::byte> bytes_of(std::string_view text);

// "a/b" for "a/b/c", "." for "c", "/" for "/c".
std::string folder_of(const std::string& path);

// As Env::make_folders, and durably: every folder that had to be made survives a crash.
void make_folders_durably(Env& env, const std::string& path);

// The whole file. More than `limit_bytes` is an Error(kInput): nobody reads a terabyte into memory by a slip.
std::string read_file(Env& env, const std::string& path, uint64_t limit_bytes);

// Creates or replaces the file; neither atomic nor durable. For reports and other things that can be made again.
void write_file(Env& env, const std::string& path, std::span<const std::byte> bytes);

// Replaces the file in one step and durably: after it returns the new content survives a crash; before that, or when it
// throws, the file has its old content or the new, whole. Writes `path`.tmp first and removes it when something fails;
// a crash may leave it, and the next publish overwrites it. Requires: one publisher per path at a time.
void publish_file(Env& env, const std::string& path, std::span<const std::byte> bytes);
// The same for content that is written piece by piece: `fill` gets the new, empty file.
void publish_file(Env& env, const std::string& path, const std::function<void(File&)>& fill);

}  // namespace weft
