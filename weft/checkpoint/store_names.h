// The names in a store, and the only doors to what lies behind them: no link is followed and no more is read than expected,
// so that a store from elsewhere cannot lead a reader out of its folder.
//
//   DIR/step_00000012/            a committed step, with manifest.json and rank_00000.safetensors ...
//   DIR/step_00000012.tmp/        being written, or left by a crash
//   DIR/step_00000012.old/        the earlier save of a step while a new one takes its name; counts while it has no successor
//   DIR/step_00000012.trash/      being removed
//   DIR/latest                    which step was committed last
//   DIR/store.lock                held by the run that writes
//
// Threads: pure functions over an Env. Failure: Error(kInput) for links and wrong sizes, IoError.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "weft/base/env.h"

namespace weft::checkpoint {

// On-disk: never rename.
inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kLatestName = "latest";
inline constexpr std::string_view kLockName = "store.lock";
inline constexpr std::string_view kTempSuffix = ".tmp";
inline constexpr std::string_view kOldSuffix = ".old";
inline constexpr std::string_view kTrashSuffix = ".trash";

// "step_00000012": eight digits or more, so that names sort by step up to 10^8.
std::string step_name(int64_t step);
// The step of exactly such a name followed by `suffix`; nothing for every other name.
std::optional<int64_t> step_of(std::string_view name, std::string_view suffix = "");
// "rank_00003.safetensors", and "rank_00003_1.safetensors" for a rank's second file.
std::string rank_file_name(int rank, int part = 0);
// Letters, digits, '_', '-' and '.', not a dot first, .safetensors last: a name that stays inside its folder.
bool is_stored_file_name(std::string_view name);

// Refuses what is missing, links, folders and devices; and, when told, every size but one.
void check_stored(Env& env, const std::string& path, std::optional<uint64_t> bytes = std::nullopt);
// Opens such a file for reading.
std::unique_ptr<File> open_stored(Env& env, const std::string& path, uint64_t bytes);
// The whole of such a file, up to the limit.
std::string read_stored(Env& env, const std::string& path, uint64_t limit_bytes);
// A new, empty file, whatever an earlier attempt left under the name.
std::unique_ptr<File> create_stored(Env& env, const std::string& path);
// Removes a folder of plain files. Not durable until its parent is synced.
void remove_flat_folder(Env& env, const std::string& path);

}  // namespace weft::checkpoint
