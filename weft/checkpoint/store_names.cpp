#include "weft/checkpoint/store_names.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::checkpoint {
namespace {

constexpr std::string_view kStepPrefix = "step_";
constexpr std::string_view kFileSuffix = ".safetensors";
constexpr size_t kMaxFileNameBytes = 128;

std::string padded(int64_t number, size_t digits) {
  std::string text = std::to_string(number);
  text.insert(0, text.size() < digits ? digits - text.size() : 0, '0');
  return text;
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

[[noreturn]] void refuse_stored(std::string what, const std::string& path) {
  throw Error(
      ErrorKind::kInput,
      {.title = "the checkpoint is damaged", .what = std::move(what), .where = path, .fix = "use another step"});
}

}  // namespace

std::string step_name(int64_t step) { return cat(kStepPrefix, padded(step, 8)); }

std::optional<int64_t> step_of(std::string_view name, std::string_view suffix) {
  if (!name.starts_with(kStepPrefix) || !name.ends_with(suffix)) return std::nullopt;
  name.remove_suffix(suffix.size());
  const auto digits = name.substr(std::min(name.size(), kStepPrefix.size()));
  int64_t step = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), step);
  // One name per step: "step_12" and "step_000000012" are nobody's.
  if (step < 0 || step_name(step) != name) return std::nullopt;
  return step;
}

std::string rank_file_name(int rank, int part) {
  const std::string which = part == 0 ? "" : cat("_", part);
  return cat("rank_", padded(rank, 5), which, kFileSuffix);
}

bool is_stored_file_name(std::string_view name) {
  return name.size() <= kMaxFileNameBytes && name.ends_with(kFileSuffix) && !name.starts_with('.') &&
         std::ranges::all_of(name, is_name_character);
}

void check_stored(Env& env, const std::string& path, std::optional<uint64_t> bytes) {
  const auto info = env.stat(path);
  if (!info) refuse_stored("the file is missing", path);
  if (info->is_link) refuse_stored("it is a symbolic link; a store has none, and none is followed", path);
  if (info->kind != FileKind::kFile) refuse_stored("it is not a plain file", path);
  if (bytes && info->bytes != *bytes)
    refuse_stored(cat("it has ", info->bytes, " bytes, the manifest says ", *bytes), path);
}

std::unique_ptr<File> open_stored(Env& env, const std::string& path, uint64_t bytes) {
  check_stored(env, path, bytes);
  return env.open(path, OpenMode::kRead);
}

std::string read_stored(Env& env, const std::string& path, uint64_t limit_bytes) {
  check_stored(env, path);
  return read_file(env, path, limit_bytes);
}

// Not OpenMode::kCreate: that would follow a link and empty what it leads to.
std::unique_ptr<File> create_stored(Env& env, const std::string& path) {
  if (env.stat(path)) env.remove_file(path);
  return env.open(path, OpenMode::kCreateNew);
}

void remove_flat_folder(Env& env, const std::string& path) {
  for (const auto& name : env.list(path)) env.remove_file(cat(path, "/", name));
  env.remove_folder(path);
}

}  // namespace weft::checkpoint
