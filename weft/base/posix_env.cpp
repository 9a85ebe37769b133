// The Env of the real machine.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "weft/base/aio.h"
#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/fd.h"

namespace weft {
namespace {

class PosixFile : public File {
 public:
  PosixFile(std::string path, UniqueFd fd) : File(std::move(path)), fd_(std::move(fd)) {}

  size_t read_at(uint64_t offset, std::span<std::byte> into) override {
    size_t done = 0;
    while (done < into.size()) {
      const ssize_t got = retry_interrupted([&] {
        return ::pread(fd_.get(), into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
      });
      if (got < 0) throw IoError("read the file", path(), errno);
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }

  void write_at(uint64_t offset, std::span<const std::byte> bytes) override {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t put = retry_interrupted([&] {
        return ::pwrite(fd_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
      });
      if (put < 0) throw IoError("write the file", path(), errno);
      // Never seen on a regular file; without this a broken driver would hang us.
      if (put == 0) throw IoError("write the file", path(), EIO);
      done += static_cast<size_t>(put);
    }
  }

  void sync() override {
    // fdatasync: skips the time stamps, keeps the size.
    if (retry_interrupted([&] { return ::fdatasync(fd_.get()); }) < 0)
      throw IoError("flush the file to the disk", path(), errno);
  }

  uint64_t size() override {
    struct ::stat info{};
    if (::fstat(fd_.get(), &info) < 0) throw IoError("ask for the file's size", path(), errno);
    return static_cast<uint64_t>(info.st_size);
  }

  void truncate(uint64_t bytes) override {
    const int result = retry_interrupted([&] { return ::ftruncate(fd_.get(), static_cast<off_t>(bytes)); });
    if (result < 0) throw IoError("change the file's size", path(), errno);
  }

  int fd() const override { return fd_.get(); }

 private:
  UniqueFd fd_;
};

int flags_of(OpenMode mode) {
  switch (mode) {
    case OpenMode::kRead: return O_RDONLY;
    case OpenMode::kReadWrite: return O_RDWR;
    case OpenMode::kCreate: return O_RDWR | O_CREAT | O_TRUNC;
    case OpenMode::kCreateNew: return O_RDWR | O_CREAT | O_EXCL;
  }
  return O_RDONLY;
}

UniqueFd open_fd(const std::string& path, int flags, std::string_view doing) {
  UniqueFd fd(retry_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); }));
  if (!fd) throw IoError(doing, path, errno);
  return fd;
}

class PosixEnv : public Env {
 public:
  std::unique_ptr<File> open(const std::string& path, OpenMode mode) override {
    const bool makes = mode == OpenMode::kCreate || mode == OpenMode::kCreateNew;
    return std::make_unique<PosixFile>(path,
                                       open_fd(path, flags_of(mode), makes ? "create the file" : "open the file"));
  }

  std::optional<FileInfo> stat(const std::string& path) override {
    struct ::stat info{};
    if (::stat(path.c_str(), &info) < 0) {
      if (errno == ENOENT) return std::nullopt;
      throw IoError("look up the file", path, errno);
    }
    const FileKind kind = S_ISREG(info.st_mode)   ? FileKind::kFile
                          : S_ISDIR(info.st_mode) ? FileKind::kFolder
                                                  : FileKind::kOther;
    struct ::stat link{};
    const bool is_link = ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
    return FileInfo{.kind = kind, .bytes = static_cast<uint64_t>(info.st_size), .is_link = is_link};
  }

  std::vector<std::string> list(const std::string& folder) override {
    std::vector<std::string> names;
    std::error_code code;
    std::filesystem::directory_iterator at(folder, code);
    for (const std::filesystem::directory_iterator end; !code && at != end; at.increment(code)) {
      names.push_back(at->path().filename().string());
    }
    if (code) throw IoError("list the folder", folder, code.value());
    std::ranges::sort(names);
    return names;
  }

  void make_folders(const std::string& path) override {
    std::error_code code;
    std::filesystem::create_directories(path, code);
    if (code) throw IoError("make the folder", path, code.value());
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) < 0) throw IoError("rename " + from, to, errno);
  }

  void remove_file(const std::string& path) override {
    if (::unlink(path.c_str()) < 0) throw IoError("remove the file", path, errno);
  }

  void remove_folder(const std::string& path) override {
    if (::rmdir(path.c_str()) < 0) throw IoError("remove the folder", path, errno);
  }

  void sync_folder(const std::string& path) override {
    const UniqueFd fd = open_fd(path, O_RDONLY | O_DIRECTORY, "open the folder");
    if (retry_interrupted([&] { return ::fsync(fd.get()); }) < 0)
      throw IoError("flush the folder to the disk", path, errno);
  }

  uint64_t free_bytes(const std::string& path) override {
    struct ::statvfs info{};
    if (retry_interrupted([&] { return ::statvfs(path.c_str(), &info); }) < 0)
      throw IoError("ask for free space", path, errno);
    return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  }

  std::unique_ptr<AsyncIo> async_io(const AsyncOptions& options) override { return make_async_io(options); }
};

}  // namespace

// Never destroyed: files may be written while the process winds down.
Env& Env::posix() {
  static Env& env = *new PosixEnv;
  return env;
}

}  // namespace weft
