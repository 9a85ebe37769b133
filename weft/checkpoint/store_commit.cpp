// The order of these calls is the whole point: see "Writing" in docs/formats/checkpoint.md.
#include <utility>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/checkpoint/kill_points.h"
#include "weft/checkpoint/store.h"
#include "weft/checkpoint/store_names.h"
#include "weft/checkpoint/store_writer.h"

namespace weft::checkpoint {
namespace {

// An earlier attempt with more ranks may have left files here that the manifest knows nothing of.
void remove_strays(Env& env, const std::string& folder, const Manifest& manifest) {
  for (const auto& name : env.list(folder)) {
    if (manifest.find_file(name) == nullptr) env.remove_file(cat(folder, "/", name));
  }
}

void write_manifest(Env& env, const std::string& folder, const Manifest& manifest) {
  const std::string path = cat(folder, "/", kManifestName), text = render_manifest(manifest);
  parse_manifest(text, path);  // past a limit of the readers' it would be a step that nobody can load
  const auto file = create_stored(env, path);
  file->write_at(0, bytes_of(text));
  file->sync();
}

// From here to the next rename the step has no folder under its own name; readers then take this one.
void make_way(Env& env, const std::string& store, const std::string& name) {
  const std::string old = cat(name, kOldSuffix);
  if (env.stat(cat(store, "/", old))) discard_folder(env, store, old);
  env.rename(cat(store, "/", name), cat(store, "/", old));
  env.sync_folder(store);
}

// The step counts already: what cannot be cleared away now is cleared by the next sweep.
void try_discard(Env& env, const std::string& store, const std::string& name) {
  try {
    if (env.stat(cat(store, "/", name))) discard_folder(env, store, name);
  } catch (const Error& error) {
    log_warn("left behind ", store, "/", name, "\n", error.what());
  }
}

}  // namespace

void commit_step(Env& env, const std::string& store, Manifest head, std::span<const Part> parts) {
  const std::string temp = cat(store, "/", step_name(head.step), kTempSuffix);
  commit_manifest(env, store, merge_parts(std::move(head), parts, cat(temp, "/", kManifestName)),
                  [](const StoredFile&) { return true; });
}

void commit_manifest(Env& env, const std::string& store, const Manifest& manifest,
                     const std::function<bool(const StoredFile&)>& is_here) {
  const std::string name = step_name(manifest.step), temp = cat(store, "/", name, kTempSuffix);
  const std::string path = cat(store, "/", name);
  pass(KillPoint::kCommitBegin);
  remove_strays(env, temp, manifest);
  for (const auto& file : manifest.files) {
    if (is_here(file)) check_stored(env, cat(temp, "/", file.name), file.bytes);
  }
  env.sync_folder(temp);
  write_manifest(env, temp, manifest);
  env.sync_folder(temp);
  pass(KillPoint::kCommitSealed);
  if (env.stat(path)) make_way(env, store, name);
  env.rename(temp, path);
  env.sync_folder(store);
  pass(KillPoint::kCommitRenamed);
  publish_file(env, cat(store, "/", kLatestName), bytes_of(render_latest(manifest.step)));
  pass(KillPoint::kCommitPointed);
  try_discard(env, store, cat(name, kOldSuffix));
}

void discard_folder(Env& env, const std::string& store, const std::string& folder_name) {
  const std::string path = cat(store, "/", folder_name);
  const std::string trash = cat(store, "/", folder_name.substr(0, folder_name.find('.')), kTrashSuffix);
  if (env.stat(trash)) remove_flat_folder(env, trash);
  env.rename(path, trash);
  env.sync_folder(store);
  pass(KillPoint::kPruneRenamed);
  remove_flat_folder(env, trash);
}

void sweep_store(Env& env, const std::string& store, std::optional<int64_t> step_in_flight) {
  if (!env.stat(store)) return;
  for (const auto& name : env.list(store)) {
    const auto temp = step_of(name, kTempSuffix);
    const bool is_rubbish = step_of(name, kTrashSuffix) || (temp && temp != step_in_flight);
    if (is_rubbish) remove_flat_folder(env, cat(store, "/", name));
  }
  for (const auto& name : env.list(store)) {
    const auto old = step_of(name, kOldSuffix);
    if (old && env.stat(cat(store, "/", step_name(*old)))) discard_folder(env, store, name);
  }
}

}  // namespace weft::checkpoint
