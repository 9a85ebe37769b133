#include "weft/checkpoint/save_step.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/checkpoint/kill_points.h"
#include "weft/checkpoint/store_names.h"

namespace weft::checkpoint {
namespace {

// Notes are looked for often at first, when all ranks end together, and seldom later, when a disk or a network is slow.
constexpr auto kFirstLook = std::chrono::milliseconds(1), kLastLook = std::chrono::milliseconds(100);

std::string folder_in(const std::string& store, int64_t step) { return cat(store, "/", step_name(step), kTempSuffix); }
std::string note_name(int rank, const std::string& id) { return cat("rank_", rank, ".", id, ".part"); }
std::string failure_name(int rank, const std::string& id) { return cat("rank_", rank, ".", id, ".failed"); }

// Best effort: without it rank 0 waits for its deadline.
void say_failed(Env& env, const std::string& store, const SaveRequest& request) {
  try {
    env.open(cat(folder_in(store, request.step), "/", failure_name(request.rank, request.id)), OpenMode::kCreate);
  } catch (const Error& error) {
    log_warn("cannot tell rank 0 that the save failed\n", error.what());
  }
}

// Seen whole or not at all, and nothing after that: rank 0 may have given the folder its final name already. It need not be durable:
// the manifest will say what it says.
void leave_note(Env& env, const std::string& path, const std::string& text) {
  const std::string temp = path + std::string(kTempSuffix);
  env.open(temp, OpenMode::kCreate)->write_at(0, bytes_of(text));
  env.rename(temp, path);
}

void write_for_others(Env& env, const std::string& store, const SaveRequest& request,
                      const std::function<void(RankFileWriter&)>& fill) {
  try {
    const Part part = write_rank_file(env, store, request, fill);
    const std::string path = cat(folder_in(store, request.step), "/", note_name(request.rank, request.id));
    leave_note(env, path, render_part(part));
    pass(KillPoint::kSaveNoted);
  } catch (...) {
    say_failed(env, store, request);
    throw;
  }
}

// --- Rank 0 ----------------------------------------------------------------------------------------------------------

[[noreturn]] void give_up(std::string what, const std::string& folder, std::string fix) {
  throw Error(
      ErrorKind::kEnvironment,
      {.title = "the checkpoint could not be saved", .what = std::move(what), .where = folder, .fix = std::move(fix)});
}

// Those whose name is not in the folder, a few by number.
std::string names_of(const std::vector<int>& ranks) {
  constexpr size_t kMaxNamed = 8;
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min(ranks.size(), kMaxNamed); ++i) out.push_back(cat(ranks[i]));
  if (ranks.size() > kMaxNamed) out.push_back(cat("and ", ranks.size() - kMaxNamed, " more"));
  return cat(ranks.size() == 1 ? "rank " : "ranks ", join(out, ", "));
}

std::vector<int> missing_in(Env& env, const std::string& folder, const SaveRequest& request) {
  const std::vector<std::string> names = env.list(folder);
  const auto has = [&](const std::string& name) { return std::ranges::binary_search(names, name); };
  std::vector<int> missing, failed;
  for (int rank = 1; rank < request.world; ++rank) {
    if (has(failure_name(rank, request.id))) failed.push_back(rank);
    if (!has(note_name(rank, request.id))) missing.push_back(rank);
  }
  if (!failed.empty()) give_up(cat("its part could not be written by ", names_of(failed)), folder, "see their log");
  return missing;
}

void wait_for_notes(Env& env, const std::string& folder, const SaveRequest& request) {
  auto deadline = Deadline::after(request.others_deadline_s);
  bool hurries = false;
  std::chrono::milliseconds pause = kFirstLook;
  for (;;) {
    const std::vector<int> missing = missing_in(env, folder, request);
    if (missing.empty()) return;
    if (!hurries && request.hurry != nullptr && request.hurry->load()) {
      hurries = true;
      deadline = Deadline::after(std::min(request.hurry_deadline_s, request.others_deadline_s));
    }
    if (deadline.expired() && hurries)
      give_up(cat("training ended before the part of ", names_of(missing), " was there"), folder, "");
    if (deadline.expired()) {
      give_up(cat("no part of ", names_of(missing), " after ", request.others_deadline_s, " s"), folder,
              "check that all ranks see this folder, and that none of them hangs");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLastLook);
  }
}

std::vector<Part> parts_of_others(Env& env, const std::string& folder, const SaveRequest& request) {
  std::vector<Part> out;
  for (int rank = 1; rank < request.world; ++rank) {
    const std::string path = cat(folder, "/", note_name(rank, request.id));
    out.push_back(parse_part(read_stored(env, path, kMaxManifestBytes), path));
  }
  return out;
}

void write_and_commit(Env& env, const std::string& store, const SaveRequest& request,
                      const std::function<void(RankFileWriter&)>& fill) {
  sweep_store(env, store, request.step);
  std::vector<Part> parts = {write_rank_file(env, store, request, fill)};
  const std::string folder = folder_in(store, request.step);
  wait_for_notes(env, folder, request);
  for (Part& part : parts_of_others(env, folder, request)) parts.push_back(std::move(part));
  Manifest head = request.head;
  head.step = request.step;
  head.world = request.world;
  commit_step(env, store, std::move(head), parts);
  if (request.keep) prune_after_commit(env, store, *request.keep);
}

}  // namespace

Part write_rank_file(Env& env, const std::string& store, const SaveRequest& request,
                     const std::function<void(RankFileWriter& writer)>& fill) {
  pass(KillPoint::kSaveBegin);
  RankFileWriter writer(env, store, request.step, request.rank, request.slices);
  pass(KillPoint::kSaveOpened);
  fill(writer);
  Part part = writer.finish();
  pass(KillPoint::kSaveWritten);
  return part;
}

void prune_after_commit(Env& env, const std::string& store, const PrunePolicy& policy) {
  pass(KillPoint::kPruneBegin);
  try {
    prune_store(env, store, policy);
  } catch (const Error& error) {
    log_warn("old checkpoints could not be removed\n", error.what());
  }
}

void save_step(Env& env, const std::string& store, const SaveRequest& request,
               const std::function<void(RankFileWriter& writer)>& fill) {
  request.rank == 0 ? write_and_commit(env, store, request, fill) : write_for_others(env, store, request, fill);
}

}  // namespace weft::checkpoint
