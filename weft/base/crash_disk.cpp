#include <algorithm>
#include <cerrno>
#include <cstring>

#include "weft/base/crash_disk_impl.h"
#include "weft/base/error.h"

namespace weft::detail {
namespace {

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    if (part == ".." && !parts.empty()) parts.pop_back();
    if (!part.empty() && part != "." && part != "..") parts.push_back(part);
    at = end + 1;
  }
  return parts;
}

void put(std::string& content, uint64_t offset, std::string_view bytes) {
  if (bytes.empty()) return;
  if (content.size() < offset + bytes.size()) content.resize(offset + bytes.size(), '\0');
  content.replace(offset, bytes.size(), bytes);
}

void replay(std::string& content, const PendingBytes& change) {
  if (change.is_truncate) content.resize(change.offset, '\0');
  if (!change.is_truncate) put(content, change.offset, change.bytes);
}

void replay(CrashEntries& entries, const PendingNames& names) {
  for (const auto& [name, node] : names) {
    if (node) entries[name] = node;
    if (!node) entries.erase(name);
  }
}

// Each piece of a write between two borders lives or dies alone. A dead one may still have made the file longer: the size
// is metadata and reaches the disk on its own, which is how files come to end in zeros.
void replay_torn(std::string& content, const PendingBytes& change, CrashKeeper& keeper) {
  if (change.is_truncate) {
    if (keeper.keeps_size()) replay(content, change);
    return;
  }
  const uint64_t end = change.offset + change.bytes.size();
  for (uint64_t at = change.offset; at < end;) {
    const uint64_t next = std::min(end, (at / keeper.border_bytes() + 1) * keeper.border_bytes());
    if (keeper.keeps_bytes(at)) {
      put(content, at, std::string_view(change.bytes).substr(at - change.offset, next - at));
    } else if (keeper.keeps_size() && content.size() < next) {
      content.resize(next, '\0');
    }
    at = next;
  }
}

void crash_node(CrashNode& node, CrashKeeper* keeper) {
  for (const auto& change : node.pending_bytes) {
    if (keeper != nullptr) replay_torn(node.durable_bytes, change, *keeper);
  }
  for (const auto& names : node.pending_names) {
    if (keeper != nullptr && keeper->keeps_names()) replay(node.durable_entries, names);
  }
  node.pending_bytes.clear();
  node.pending_names.clear();
  node.bytes = node.durable_bytes;
  node.entries = node.durable_entries;
  for (const auto& [name, child] : node.entries) crash_node(*child, keeper);
}

bool holds(const CrashNode& folder, const CrashNodePtr& node) {
  return std::ranges::any_of(folder.entries, [&](const auto& e) { return e.second == node || holds(*e.second, node); });
}

// The errno rename(2) gives for replacing `to` by `from`; 0 when it may.
int refusal_to_replace(const CrashNode& from, const CrashNode& to) {
  const bool from_folder = from.kind == FileKind::kFolder, to_folder = to.kind == FileKind::kFolder;
  if (from_folder && !to_folder) return ENOTDIR;
  if (!from_folder && to_folder) return EISDIR;
  return to.entries.empty() ? 0 : ENOTEMPTY;
}

}  // namespace

size_t CrashNode::read(uint64_t offset, std::span<std::byte> into) const {
  if (offset >= bytes.size() || into.empty()) return 0;
  const size_t count = std::min<uint64_t>(into.size(), bytes.size() - offset);
  std::memcpy(into.data(), bytes.data() + offset, count);
  return count;
}

void CrashNode::write(uint64_t offset, std::span<const std::byte> from) {
  if (from.empty()) return;
  pending_bytes.push_back(
      {.offset = offset, .bytes = std::string(reinterpret_cast<const char*>(from.data()), from.size())});
  replay(bytes, pending_bytes.back());
}

void CrashNode::truncate(uint64_t size) {
  pending_bytes.push_back({.offset = size, .bytes = "", .is_truncate = true});
  replay(bytes, pending_bytes.back());
}

void CrashNode::sync() {
  // Not durable = seen: what a failed sync has lost must stay lost.
  for (const auto& change : pending_bytes) replay(durable_bytes, change);
  for (const auto& names : pending_names) replay(durable_entries, names);
  pending_bytes.clear();
  pending_names.clear();
}

void CrashNode::change(PendingNames names) {
  replay(entries, names);
  pending_names.push_back(std::move(names));
}

CrashNodePtr CrashDisk::find(const std::string& path) const {
  CrashNodePtr node = root_;
  for (const auto& part : parts_of(path)) {
    if (node->kind != FileKind::kFolder) throw IoError("look up the file", path, ENOTDIR);
    const auto next = node->entries.find(part);
    if (next == node->entries.end()) return nullptr;
    node = next->second;
  }
  return node;
}

CrashNodePtr CrashDisk::folder(const std::string& path, std::string_view doing) const {
  const CrashNodePtr node = find(path);
  if (!node) throw IoError(doing, path, ENOENT);
  if (node->kind != FileKind::kFolder) throw IoError(doing, path, ENOTDIR);
  return node;
}

CrashDisk::Place CrashDisk::place_of(const std::string& path, std::string_view doing) const {
  auto parts = parts_of(path);
  if (parts.empty()) throw IoError(doing, path, EBUSY);
  Place place;
  place.name = parts.back();
  if (place.name.size() > 255) throw IoError(doing, path, ENAMETOOLONG);
  place.folder = root_;
  parts.pop_back();
  for (const auto& part : parts) {
    const auto next = place.folder->entries.find(part);
    if (next == place.folder->entries.end()) throw IoError(doing, path, ENOENT);
    if (next->second->kind != FileKind::kFolder) throw IoError(doing, path, ENOTDIR);
    place.folder = next->second;
  }
  const auto here = place.folder->entries.find(place.name);
  if (here != place.folder->entries.end()) place.node = here->second;
  return place;
}

CrashNodePtr CrashDisk::open(const std::string& path, OpenMode mode) {
  const bool makes = mode == OpenMode::kCreate || mode == OpenMode::kCreateNew;
  const std::string_view doing = makes ? "create the file" : "open the file";
  const Place place = place_of(path, doing);
  if (place.node && mode == OpenMode::kCreateNew) throw IoError(doing, path, EEXIST);
  if (place.node && place.node->kind == FileKind::kFolder) throw IoError(doing, path, EISDIR);
  if (place.node && mode == OpenMode::kCreate) place.node->truncate(0);
  if (place.node) return place.node;
  if (!makes) throw IoError(doing, path, ENOENT);
  const auto node = std::make_shared<CrashNode>(FileKind::kFile);
  place.folder->change({{place.name, node}});
  return node;
}

void CrashDisk::make_folders(const std::string& path) {
  std::string so_far;
  for (const auto& part : parts_of(path)) {
    so_far += "/" + part;
    const Place place = place_of(so_far, "make the folder");
    if (place.node && place.node->kind != FileKind::kFolder) throw IoError("make the folder", path, ENOTDIR);
    if (place.node) continue;
    place.folder->change({{place.name, std::make_shared<CrashNode>(FileKind::kFolder)}});
  }
}

void CrashDisk::rename(const std::string& from, const std::string& to) {
  const std::string doing = "rename " + from;
  const Place source = place_of(from, doing), target = place_of(to, doing);
  if (!source.node) throw IoError(doing, to, ENOENT);
  if (source.node == target.node) return;
  if (source.node == target.folder || holds(*source.node, target.folder)) throw IoError(doing, to, EINVAL);
  const int refusal = target.node ? refusal_to_replace(*source.node, *target.node) : 0;
  if (refusal != 0) throw IoError(doing, to, refusal);
  if (source.folder == target.folder)
    return source.folder->change({{source.name, nullptr}, {target.name, source.node}});
  source.folder->change({{source.name, nullptr}});
  target.folder->change({{target.name, source.node}});
}

void CrashDisk::remove_file(const std::string& path) {
  const Place place = place_of(path, "remove the file");
  if (!place.node) throw IoError("remove the file", path, ENOENT);
  if (place.node->kind == FileKind::kFolder) throw IoError("remove the file", path, EISDIR);
  place.folder->change({{place.name, nullptr}});
}

void CrashDisk::remove_folder(const std::string& path) {
  const Place place = place_of(path, "remove the folder");
  if (!place.node) throw IoError("remove the folder", path, ENOENT);
  if (place.node->kind != FileKind::kFolder) throw IoError("remove the folder", path, ENOTDIR);
  if (!place.node->entries.empty()) throw IoError("remove the folder", path, ENOTEMPTY);
  place.folder->change({{place.name, nullptr}});
}

void CrashDisk::crash(CrashKeeper* keeper) {
  ++generation_;
  crash_node(*root_, keeper);
}

}  // namespace weft::detail
