#include "weft/base/crash_env.h"

#include <cerrno>
#include <random>

#include "weft/base/crash_disk_impl.h"
#include "weft/base/error.h"

namespace weft {
namespace {

class TossingKeeper : public CrashKeeper {
 public:
  explicit TossingKeeper(uint64_t seed) : toss_(seed) {}
  bool keeps_names() override { return heads(); }
  bool keeps_bytes(uint64_t /*offset*/) override { return heads(); }
  bool keeps_size() override { return heads(); }

 private:
  bool heads() { return (toss_() & 1) != 0; }
  std::mt19937_64 toss_;
};

}  // namespace

class CrashFile : public File {
 public:
  CrashFile(CrashEnv& env, std::string path, detail::CrashNodePtr node, OpenMode mode)
      : File(std::move(path)), env_(env), node_(std::move(node)), mode_(mode), generation_(env.disk_->generation()) {}

  size_t read_at(uint64_t offset, std::span<std::byte> into) override {
    const std::lock_guard lock(env_.mutex_);
    enter(EnvCall::kRead, "read the file");
    return node_->read(offset, into);
  }

  void write_at(uint64_t offset, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(env_.mutex_);
    require_writable("write the file");
    const auto verdict = env_.judge(EnvCall::kWrite);
    if (verdict.short_bytes) node_->write(offset, bytes.first(std::min(*verdict.short_bytes, bytes.size())));
    if (verdict.code != 0) throw IoError("write the file", path(), verdict.code);
    node_->write(offset, bytes);
  }

  void sync() override {
    const std::lock_guard lock(env_.mutex_);
    require_fresh("flush the file to the disk");
    const auto verdict = env_.judge(EnvCall::kSync);
    // Linux marks the pages clean after a failed write-back; the next sync finds nothing to do.
    if (verdict.code != 0 && !verdict.power_is_off) node_->pending_bytes.clear();
    if (verdict.code != 0) throw IoError("flush the file to the disk", path(), verdict.code);
    node_->sync();
  }

  uint64_t size() override {
    const std::lock_guard lock(env_.mutex_);
    enter(EnvCall::kSize, "ask for the file's size");
    return node_->bytes.size();
  }

  void truncate(uint64_t bytes) override {
    const std::lock_guard lock(env_.mutex_);
    require_writable("change the file's size");
    enter(EnvCall::kTruncate, "change the file's size");
    node_->truncate(bytes);
  }

  int fd() const override { return -1; }

 private:
  void require_fresh(std::string_view doing) const {
    if (generation_ != env_.disk_->generation()) throw IoError(doing, path(), EBADF);
  }
  void require_writable(std::string_view doing) const {
    require_fresh(doing);
    if (mode_ == OpenMode::kRead) throw IoError(doing, path(), EBADF);
  }
  void enter(EnvCall call, std::string_view doing) {
    require_fresh(doing);
    env_.enter(call, doing, path());
  }

  CrashEnv& env_;
  detail::CrashNodePtr node_;
  OpenMode mode_;
  int generation_;
};

CrashEnv::CrashEnv() : disk_(std::make_unique<detail::CrashDisk>()) {}
CrashEnv::~CrashEnv() = default;

CrashEnv::Verdict CrashEnv::judge(EnvCall call) {
  ++calls_;
  Verdict verdict;
  for (Fault& fault : faults_) {
    if (fault.only && *fault.only != call) continue;
    if (--fault.calls_left != 0) continue;
    ++faults_fired_;
    power_is_off_ = power_is_off_ || fault.cuts_power;
    verdict = {.code = fault.code, .short_bytes = fault.short_bytes, .power_is_off = false};
  }
  std::erase_if(faults_, [](const Fault& fault) { return fault.calls_left <= 0; });
  if (power_is_off_) verdict = {.code = EIO, .short_bytes = std::nullopt, .power_is_off = true};
  return verdict;
}

void CrashEnv::enter(EnvCall call, std::string_view doing, const std::string& path) {
  const Verdict verdict = judge(call);
  if (verdict.code != 0) throw IoError(doing, path, verdict.code);
}

std::unique_ptr<File> CrashEnv::open(const std::string& path, OpenMode mode) {
  const std::lock_guard lock(mutex_);
  enter(EnvCall::kOpen, "open the file", path);
  return std::make_unique<CrashFile>(*this, path, disk_->open(path, mode), mode);
}

std::optional<FileInfo> CrashEnv::stat(const std::string& path) {
  const std::lock_guard lock(mutex_);
  enter(EnvCall::kStat, "look up the file", path);
  const auto node = disk_->find(path);
  if (!node) return std::nullopt;
  return FileInfo{.kind = node->kind, .bytes = node->bytes.size(), .is_link = false};
}

std::vector<std::string> CrashEnv::list(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  enter(EnvCall::kList, "list the folder", folder);
  std::vector<std::string> names;
  for (const auto& [name, node] : disk_->folder(folder, "list the folder")->entries) names.push_back(name);
  return names;
}

void CrashEnv::make_folders(const std::string& path) {
  const std::lock_guard lock(mutex_);
  enter(EnvCall::kMakeFolders, "make the folder", path);
  disk_->make_folders(path);
}

void CrashEnv::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  enter(EnvCall::kRename, "rename " + from, to);
  disk_->rename(from, to);
}

void CrashEnv::remove_file(const std::string& path) {
  const std::lock_guard lock(mutex_);
  enter(EnvCall::kRemoveFile, "remove the file", path);
  disk_->remove_file(path);
}

void CrashEnv::remove_folder(const std::string& path) {
  const std::lock_guard lock(mutex_);
  enter(EnvCall::kRemoveFolder, "remove the folder", path);
  disk_->remove_folder(path);
}

void CrashEnv::sync_folder(const std::string& path) {
  const std::lock_guard lock(mutex_);
  enter(EnvCall::kSyncFolder, "flush the folder to the disk", path);
  disk_->folder(path, "open the folder")->sync();
}

uint64_t CrashEnv::free_bytes(const std::string& path) {
  const std::lock_guard lock(mutex_);
  enter(EnvCall::kFreeBytes, "ask for free space", path);
  if (!disk_->find(path)) throw IoError("ask for free space", path, ENOENT);
  return free_bytes_;
}

std::unique_ptr<AsyncIo> CrashEnv::async_io(const AsyncOptions& options) { return detail::make_late_aio(options); }

void CrashEnv::crash() {
  clear_faults();
  const std::lock_guard lock(mutex_);
  disk_->crash(nullptr);
}

void CrashEnv::crash(uint64_t seed) {
  TossingKeeper keeper(seed);
  crash(keeper);
}

void CrashEnv::crash(CrashKeeper& keeper) {
  clear_faults();
  const std::lock_guard lock(mutex_);
  disk_->crash(&keeper);
}

void CrashEnv::fail_call(int n, int code, std::optional<EnvCall> only) {
  const std::lock_guard lock(mutex_);
  faults_.push_back({.calls_left = n, .code = code, .only = only, .short_bytes = std::nullopt});
}

void CrashEnv::short_write(int n, size_t bytes) {
  const std::lock_guard lock(mutex_);
  faults_.push_back({.calls_left = n, .code = ENOSPC, .only = EnvCall::kWrite, .short_bytes = bytes});
}

void CrashEnv::cut_power_after(int n) {
  const std::lock_guard lock(mutex_);
  faults_.push_back(
      {.calls_left = n + 1, .code = EIO, .only = std::nullopt, .short_bytes = std::nullopt, .cuts_power = true});
}

void CrashEnv::clear_faults() {
  const std::lock_guard lock(mutex_);
  faults_.clear();
  power_is_off_ = false;
}

int CrashEnv::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

int CrashEnv::faults_fired() const {
  const std::lock_guard lock(mutex_);
  return faults_fired_;
}

void CrashEnv::set_free_bytes(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  free_bytes_ = bytes;
}

}  // namespace weft
