// A disk in memory for tests, which loses power and fails on command. It keeps for every file and folder what is
// durable and what is only written, and holds callers to the letter of env.h: bytes are durable after File::sync, names
// after sync_folder of their folder, and nothing else is.
//
//   CrashEnv env;
//   write_file(env, "state", bytes_of("new"));
//   env.crash();                                     // "state" is gone: nobody synced anything
//
// Its faults: a call that fails, a write that stops half way, power that goes after so many calls. Count calls() of a
// good run first, then repeat the run with the fault at each of them. A sync that fails by fail_call loses the bytes it
// should have saved, as Linux does: a second sync then succeeds and saves nothing.
//
// Its async_io is as unhelpful as the contract allows: a sync happens when it is submitted, reads and writes only when
// somebody waits for them (or the queue is full).
//
// Ownership: Files and AsyncIo must go before the CrashEnv. Files opened before a crash only answer EBADF.
// Threads: any. Failure: IoError with the errno a real file system would give.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "weft/base/env.h"

namespace weft {

namespace detail {
class CrashDisk;
}

enum class EnvCall {
  kOpen,
  kRead,
  kWrite,
  kSync,
  kSize,
  kTruncate,
  kStat,
  kList,
  kMakeFolders,
  kRename,
  kRemoveFile,
  kRemoveFolder,
  kSyncFolder,
  kFreeBytes,
};

// Decides, change by change, what the disk kept of all that was not durable when the power went. Called in the order of a
// walk from the root, and for a file or folder only when its name is there after the crash: a test that answers "no"
// first and remembers its answers can go through all of them.
class CrashKeeper {
 public:
  CrashKeeper() = default;
  virtual ~CrashKeeper() = default;
  CrashKeeper(const CrashKeeper&) = delete;
  CrashKeeper& operator=(const CrashKeeper&) = delete;

  // One change of names in a folder; a rename inside it is one.
  virtual bool keeps_names() = 0;
  // The part of a write from `offset` to the next border (or its own end).
  virtual bool keeps_bytes(uint64_t offset) = 0;
  // A change of size alone: a truncate, or the growth by a write whose bytes were lost, which leaves zeros.
  virtual bool keeps_size() = 0;
  // The distance between borders at which writes tear.
  virtual uint64_t border_bytes() const { return 512; }
};

class CrashEnv : public Env {
 public:
  CrashEnv();
  ~CrashEnv() override;

  std::unique_ptr<File> open(const std::string& path, OpenMode mode) override;
  std::optional<FileInfo> stat(const std::string& path) override;
  std::vector<std::string> list(const std::string& folder) override;
  void make_folders(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void remove_file(const std::string& path) override;
  void remove_folder(const std::string& path) override;
  void sync_folder(const std::string& path) override;
  uint64_t free_bytes(const std::string& path) override;
  std::unique_ptr<AsyncIo> async_io(const AsyncOptions& options) override;

  // The power goes and comes back: what was not durable is forgotten, and all faults are cleared.
  void crash();
  // The same, but a pseudo-random part of what was not durable survives: some writes, torn at 512-byte borders, some
  // changes of names. What survived is durable from then on. Equal seeds and histories give equal disks.
  void crash(uint64_t seed);
  // The same, with what survives decided by `keeper`, which must not call back.
  void crash(CrashKeeper& keeper);

  // The nth matching call from now (1 is the next) fails with `code` and does nothing.
  void fail_call(int n, int code, std::optional<EnvCall> only = std::nullopt);
  // The nth write from now puts down its first `bytes` bytes and fails with ENOSPC.
  void short_write(int n, size_t bytes);
  // The first n calls from now still work; every later one fails with EIO and does nothing, until crash().
  void cut_power_after(int n);
  void clear_faults();

  // Calls since the beginning, those that failed included.
  int calls() const;
  // Faults that have come true: a test that armed one and reads 0 here proved nothing.
  int faults_fired() const;

  void set_free_bytes(uint64_t bytes);

 private:
  friend class CrashFile;

  struct Fault {
    int calls_left = 0;
    int code = 0;
    std::optional<EnvCall> only;
    std::optional<size_t> short_bytes;
    bool cuts_power = false;
  };
  // What the script says about one call.
  struct Verdict {
    int code = 0;  // 0: go ahead
    std::optional<size_t> short_bytes;
    bool power_is_off = false;
  };

  // Requires: mutex_ held.
  Verdict judge(EnvCall call);
  // Throws what judge said. Requires: mutex_ held.
  void enter(EnvCall call, std::string_view doing, const std::string& path);

  mutable std::mutex mutex_;
  std::unique_ptr<detail::CrashDisk> disk_;
  std::vector<Fault> faults_;
  bool power_is_off_ = false;
  int calls_ = 0;
  int faults_fired_ = 0;
  uint64_t free_bytes_ = uint64_t{1} << 40;
};

}  // namespace weft
