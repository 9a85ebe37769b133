// The memory behind CrashEnv: a tree of nodes, each with the state programs see, the state on the platter, and the
// changes between the two in order.
//
// Threads: none of its own, CrashEnv locks. Failure: IoError.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/aio.h"
#include "weft/base/crash_env.h"
#include "weft/base/env.h"

namespace weft::detail {

struct CrashNode;
using CrashNodePtr = std::shared_ptr<CrashNode>;
using CrashEntries = std::map<std::string, CrashNodePtr>;

// A write, or (without bytes) a change of size.
struct PendingBytes {
  uint64_t offset = 0;
  std::string bytes = {};
  bool is_truncate = false;
};

// Names that change together; a null node removes the name. One rename inside a folder is one change: file systems do
// not tear it.
using PendingNames = std::vector<std::pair<std::string, CrashNodePtr>>;

struct CrashNode {
  explicit CrashNode(FileKind node_kind) : kind(node_kind) {}

  const FileKind kind;

  std::string bytes, durable_bytes;
  std::vector<PendingBytes> pending_bytes;

  CrashEntries entries, durable_entries;
  std::vector<PendingNames> pending_names;

  size_t read(uint64_t offset, std::span<std::byte> into) const;
  void write(uint64_t offset, std::span<const std::byte> from);
  void truncate(uint64_t size);
  void sync();
  void change(PendingNames names);
};

class CrashDisk {
 public:
  CrashNodePtr open(const std::string& path, OpenMode mode);
  // Null when there is no such name.
  CrashNodePtr find(const std::string& path) const;
  CrashNodePtr folder(const std::string& path, std::string_view doing) const;
  void make_folders(const std::string& path);
  void rename(const std::string& from, const std::string& to);
  void remove_file(const std::string& path);
  void remove_folder(const std::string& path);

  // Without a keeper nothing pending survives.
  void crash(CrashKeeper* keeper);
  // Counts crashes, so that a File knows it is from before one.
  int generation() const { return generation_; }

 private:
  struct Place {
    CrashNodePtr folder;
    std::string name;
    CrashNodePtr node;  // null when the name is free
  };
  Place place_of(const std::string& path, std::string_view doing) const;

  CrashNodePtr root_ = std::make_shared<CrashNode>(FileKind::kFolder);
  int generation_ = 0;
};

std::unique_ptr<AsyncIo> make_late_aio(const AsyncOptions& options);

}  // namespace weft::detail
