#include "weft/cli/worker/train_state.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"

namespace weft::cli {
namespace {

constexpr std::string_view kPrefix = "step_";
constexpr std::string_view kSuffix = ".safetensors";

// On-disk: eight digits or more, so that names sort by step up to 10^8.
std::string file_name(int64_t step) {
  std::string digits = std::to_string(step);
  digits.insert(0, digits.size() < 8 ? 8 - digits.size() : 0, '0');
  return cat(kPrefix, digits, kSuffix);
}

std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  int64_t step = 0;
  const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (problem != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return step;
}

std::vector<int64_t> saved_steps_newest_first(Env& env, const std::string& folder) {
  std::vector<int64_t> steps;
  if (!env.stat(folder)) return steps;
  for (const auto& name : env.list(folder)) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  }
  std::ranges::sort(steps, std::greater<>());
  return steps;
}

std::vector<std::string> differences(const std::map<std::string, std::string>& wanted,
                                     const std::map<std::string, std::string>& found) {
  std::vector<std::string> out;
  for (const auto& [key, value] : wanted) {
    const auto entry = found.find(key);
    const std::string there = entry == found.end() ? "nothing" : entry->second;
    if (there != value) out.push_back(cat("--", key, " is ", value, " now, the saved run had ", there));
  }
  return out;
}

}  // namespace

TrainStateStore::TrainStateStore(Env& env, std::string folder, std::map<std::string, std::string> identity,
                                 std::map<std::string, std::string> machine)
    : env_(env), folder_(std::move(folder)), identity_(std::move(identity)), machine_(std::move(machine)) {}

void TrainStateStore::save(int64_t step, const checkpoint::NamedTensors& tensors) {
  make_folders_durably(env_, folder_);
  auto metadata = identity_;
  metadata.insert(machine_.begin(), machine_.end());
  checkpoint::write_safetensors(env_, cat(folder_, "/", file_name(step)), tensors, metadata);
}

std::optional<int64_t> TrainStateStore::restore(const checkpoint::NamedTensors& tensors) {
  std::optional<Error> damage;
  for (const int64_t step : saved_steps_newest_first(env_, folder_)) {
    const std::string path = cat(folder_, "/", file_name(step));
    std::optional<checkpoint::TensorFile> file;
    try {
      file = checkpoint::read_safetensors(env_, path);
    } catch (const Error& error) {
      log_warn("passing over a damaged save and trying the one before it\n", error.what());
      damage = error;
      continue;
    }
    check_origin(file->metadata, path);
    load_into(*file, tensors, path);
    return step;
  }
  if (damage) throw Error(*damage);  // there were saves, and none is intact: starting anew would bury them
  return std::nullopt;
}

void TrainStateStore::check_origin(const std::map<std::string, std::string>& found, const std::string& path) const {
  const auto others = differences(identity_, found);
  if (!others.empty()) {
    throw Error(ErrorKind::kInput, {.title = "the saved run is another one",
                                    .what = join(others, "\n"),
                                    .where = path,
                                    .fix = "resume with the flags of the saved run, or give --save another folder"});
  }
  const auto moved = differences(machine_, found);
  if (!moved.empty())
    log_warn("the losses may differ in their last bits from a run without interruption: ", join(moved, "; "));
}

}  // namespace weft::cli
