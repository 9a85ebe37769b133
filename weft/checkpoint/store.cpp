#include "weft/checkpoint/store.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "weft/base/hash.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/checkpoint/store_names.h"
#include "weft/checkpoint/verify.h"

namespace weft::checkpoint {
namespace {

constexpr uint64_t kMaxLatestBytes = 256;

// A pointer that cannot be read costs nothing but the order of trial.
std::optional<int64_t> latest_or_nothing(Env& env, const std::string& store) {
  try {
    return read_latest(env, store);
  } catch (const Error& error) {
    log_warn("going by the names of the steps alone\n", error.what());
    return std::nullopt;
  }
}

void check_is_folder(Env& env, const std::string& path) {
  const auto info = env.stat(path);
  if (info && info->kind == FileKind::kFolder && !info->is_link) return;
  throw Error(ErrorKind::kInput, {.title = "the checkpoint is damaged",
                                  .what = "the step is not a folder, or is a symbolic link; none is followed",
                                  .where = path,
                                  .fix = "use another step"});
}

Manifest open_checked(Env& env, const StepPlace& place, Check check) {
  Manifest manifest = open_step(env, place);
  if (check == Check::kEveryBlock) {
    const auto damage = verify_files(env, place.folder, manifest);
    if (!damage.empty()) throw Error(damage.front());
  }
  return manifest;
}

}  // namespace

// On-disk: the name of the step, a space, the hash of the name, a newline.
std::string render_latest(int64_t step) {
  const std::string name = step_name(step);
  return cat(name, " ", to_hex(hash128(bytes_of(name))), "\n");
}

std::optional<int64_t> read_latest(Env& env, const std::string& store) {
  const std::string path = cat(store, "/", kLatestName);
  if (!env.stat(path)) return std::nullopt;
  const std::string text = read_stored(env, path, kMaxLatestBytes);
  const auto step = step_of(std::string_view(text).substr(0, text.find(' ')));
  if (step && text == render_latest(*step)) return step;
  throw Error(ErrorKind::kInput, {.title = "the pointer to the latest step is damaged",
                                  .what = "it is not the name of a step and that name's hash",
                                  .where = path,
                                  .fix = "remove the file; the next save writes it again"});
}

std::vector<StepPlace> list_steps(Env& env, const std::string& store) {
  std::vector<StepPlace> places;
  if (!env.stat(store)) return places;
  int64_t newest = 0;
  for (const auto& name : env.list(store)) {
    const auto plain = step_of(name), step = plain ? plain : step_of(name, kOldSuffix);
    if (step) places.push_back({.step = *step, .folder = cat(store, "/", name)});
    newest = std::max(newest, step.value_or(0));
  }
  const int64_t latest = latest_or_nothing(env, store).value_or(newest);
  std::ranges::sort(places, {}, [&](const StepPlace& place) {
    return std::tuple(place.step > latest, -place.step, std::string_view(place.folder));  // X before X.old
  });
  return places;
}

Manifest open_step(Env& env, const StepPlace& place) {
  check_is_folder(env, place.folder);
  const std::string path = cat(place.folder, "/", kManifestName);
  Manifest manifest = parse_manifest(read_stored(env, path, kMaxManifestBytes), path);
  if (manifest.step != place.step) {
    throw Error(ErrorKind::kInput,
                {.title = "the checkpoint is damaged",
                 .what = cat("the manifest is of step ", manifest.step, ", the folder of step ", place.step),
                 .where = path,
                 .fix = "give the folder its name back, or use another step"});
  }
  for (const auto& file : manifest.files) {
    const std::string file_path = cat(place.folder, "/", file.name);
    if (file.host.empty() || env.stat(file_path)) check_stored(env, file_path, file.bytes);
  }
  return manifest;
}

std::optional<FoundStep> find_newest(Env& env, const std::string& store, Check check) {
  std::vector<Error> passed_over;
  for (const auto& place : list_steps(env, store)) {
    try {
      Manifest manifest = open_checked(env, place, check);
      return FoundStep{place.step, place.folder, std::move(manifest), std::move(passed_over)};
    } catch (const Error& error) {
      log_warn("passing over step ", place.step, " and trying the one before it\n", error.what());
      passed_over.push_back(error);
    }
  }
  if (!passed_over.empty()) throw Error(passed_over.front());
  return std::nullopt;
}

}  // namespace weft::checkpoint
