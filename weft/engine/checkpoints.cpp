#include "weft/engine/checkpoints.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <utility>

#include "weft/base/clock.h"
#include "weft/base/hash.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/checkpoint/state_names.h"
#include "weft/checkpoint/store_names.h"
#include "weft/engine/agree.h"
#include "weft/engine/checkpoints_impl.h"
#include "weft/engine/saved_gradients.h"
#include "weft/engine/saved_numbers.h"
#include "weft/engine/spread_store_impl.h"
#include "weft/engine/training.h"

namespace weft::engine {
namespace {

// Rounded up for what is not tensors: headers, the manifest, names in folders.
constexpr uint64_t kOverheadBytes = 1 << 20;
constexpr uint64_t kMaxLockBytes = 4096;
constexpr double kSharingDeadlineS = 10;
constexpr auto kLookAgain = std::chrono::milliseconds(20);

}  // namespace

Checkpoints::Checkpoints(Training& training, Env& env, const StoreUse& use)
    : training_(training), env_(env), use_(use) {}

Checkpoints::~Checkpoints() {
  if (std::uncaught_exceptions() > 0) hurry();
  if (writer_.joinable()) writer_.join();
}

// --- Saving ----------------------------------------------------------------------------------------------------------

// Throws on all ranks what one of them found.
void Checkpoints::share_problem(const std::optional<Error>& problem) {
  const auto texts = exchange_texts(*training_.world().group, problem ? pack(*problem) : "", training_.device());
  if (problem) throw Error(*problem);
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].empty()) throw unpack(texts[rank], static_cast<int>(rank));
  }
}

std::optional<Error> Checkpoints::lock_problem(const std::string& folder) {
  lock_.reset();
  if (!leads()) return std::nullopt;
  try {
    lock_.emplace(env_, folder);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// The lock says who holds it: a rank that reads the same there sees the same folder. A network may take a moment to show it.
std::optional<Error> Checkpoints::sharing_problem(const std::string& folder) {
  const std::string path = cat(folder, "/", checkpoint::kLockName);
  const auto text = [&]() -> std::string {
    try {
      return read_file(env_, path, kMaxLockBytes);
    } catch (const Error&) {
      return "";
    }
  };
  const std::string of_rank_0 = exchange_texts(*training_.world().group, text(), training_.device())[0];
  const auto deadline = Deadline::after(kSharingDeadlineS);
  for (std::string mine = text(); mine != of_rank_0; mine = text()) {
    if (deadline.expired()) {
      return Error(ErrorKind::kInput,
                   {.title = "not all ranks see the folder that checkpoints go to",
                    .what = mine.empty() ? "what rank 0 wrote there is not to be found" : "it is another run's",
                    .where = path,
                    .fix = "save to a folder that all hosts share"});
    }
    std::this_thread::sleep_for(kLookAgain);
  }
  return std::nullopt;
}

bool Checkpoints::leads() const { return spread_ ? spread_->leads() : training_.world().rank == 0; }

// Where all see one folder after all, it is as if nobody had said anything else.
void Checkpoints::look_at(const std::string& folder) {
  if (!use_.is_spread || spread_folder_ == folder) return;
  const World& world = training_.world();
  spread_.emplace(*world.group, training_.device(), env_, folder);
  spread_folder_ = folder;
  if (spread_->num_folders() == 1) return spread_.reset();
  if (world.group->transport() == "nccl") {
    throw Error(ErrorKind::kInput, {.title = "this version of weft saves to disks of hosts over Gloo only",
                                    .what = "the ranks talk through NCCL",
                                    .where = folder,
                                    .fix = "save to a folder that all hosts share, or set WEFT_TRANSPORT=gloo"});
  }
  if (behind_) return;
  std::vector<int> all(static_cast<size_t>(world.size));
  std::iota(all.begin(), all.end(), 0);
  behind_ = world.group->split(all, use_.is_copy ? "copies" : "saves");
}

void Checkpoints::open(const std::string& folder) {
  if (open_folder_ == folder) return;
  finish_previous();
  open_folder_.clear();  // the lock goes first
  look_at(folder);
  share_problem(lock_problem(folder));
  if (!spread_) share_problem(sharing_problem(folder));
  open_folder_ = folder;
}

// What a rank says before a save begins.
struct Checkpoints::Start {
  uint64_t bytes = 0;
  uint64_t free_bytes = 0;    // of whoever leads: the store's disk
  std::string id = "-";       // rank 0's: of this save
  std::string buffers = "-";  // the hash of its buffers
};

double Checkpoints::finish_previous() {
  const Stopwatch watch;
  if (!writer_.joinable()) return 0;
  writer_.join();
  ++totals_.num_saves;
  totals_.num_failed += problem_ ? 1 : 0;
  totals_.write_s += wrote_s_;
  return watch.elapsed_s();
}

Checkpoints::Start Checkpoints::prepare(const std::string& folder) {
  Start out;
  slices_ = training_.state_slices(StateOf::kShare);
  for (auto& [name, tensor] : training_.own_bytes()) slices_.push_back(whole(name, tensor));
  add_gradients();
  Hasher hasher;
  for (const auto& [name, tensor] : training_.model().buffers) {
    const at::Tensor here = tensor.detach().cpu().contiguous();
    hasher.update({static_cast<const std::byte*>(here.const_data_ptr()), here.nbytes()});
  }
  out.buffers = to_hex(hasher.finish());
  if (training_.world().rank == 0) {
    for (auto& [name, tensor] : training_.updater().counters())
      slices_.push_back(whole(cat(checkpoint::kCounterPrefix, name), tensor));
    out.id = new_id();
  }
  if (leads()) out.free_bytes = env_.free_bytes(folder);
  // The next copy is written beside this one: where there is none yet, there must be room for both.
  if (leads() && use_.is_copy && checkpoint::list_steps(env_, folder).empty()) out.free_bytes /= 2;
  to_save(slices_);  // refuses types that cannot be saved
  out.bytes = total_bytes(slices_);
  return out;
}

// Of a step under way.
void Checkpoints::add_gradients() {
  for (auto& slice : training_.summed_gradients(StateOf::kShare)) slices_.push_back(std::move(slice));
  for (auto& [name, tensor] : training_.local_gradients())
    slices_.push_back(whole(checkpoint::own_grad_name(training_.world().rank, name), tensor));
}

// All ranks begin, or none does.
std::vector<Checkpoints::Start> Checkpoints::meet(const Start& mine, const std::optional<Error>& problem) {
  const std::string text =
      problem ? cat("!", pack(*problem)) : cat(mine.bytes, " ", mine.free_bytes, " ", mine.id, " ", mine.buffers);
  const auto texts = exchange_texts(*training_.world().group, text, training_.device());
  std::vector<Start> out;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const std::string& said = texts[rank];
    if (said.starts_with('!')) throw problem ? Error(*problem) : unpack(said.substr(1), static_cast<int>(rank));
    const std::vector<std::string> words = split(said, ' ');
    out.push_back({.bytes = std::stoull(words.at(0)),
                   .free_bytes = std::stoull(words.at(1)),
                   .id = words.at(2),
                   .buffers = words.at(3)});
  }
  return out;
}

// Rank 0's for all; of a rank whose buffers are others, its own.
void Checkpoints::add_buffers(const std::vector<Start>& all) {
  const int rank = training_.world().rank;
  for (const auto& [name, tensor] : training_.model().buffers) {
    if (rank == 0) slices_.push_back(whole(cat(checkpoint::kBufferPrefix, name), tensor.detach().contiguous()));
    if (all[static_cast<size_t>(rank)].buffers != all[0].buffers)
      slices_.push_back(whole(checkpoint::own_buffer_name(rank, name), tensor.detach().contiguous()));
  }
}

checkpoint::Manifest Checkpoints::head_of(const SaveOptions& options) const {
  const plan::Description plan = training_.description();
  checkpoint::Manifest out{.plan = to_hex(hashes_of(plan).all), .metrics = options.metrics};
  out.sections[std::string(checkpoint::kNumbersSection)] = training_.saved_numbers();
  out.sections[std::string(checkpoint::kPlanSection)] = plan::to_text(plan);
  if (!options.tag.empty()) out.sections[std::string(checkpoint::kTagSection)] = options.tag;
  if (options.data) out.sections[std::string(checkpoint::kDataSection)] = to_text(*options.data);
  for (const auto& [key, value] : options.client_state) out.sections[cat(checkpoint::kClientPrefix, key)] = value;
  return out;
}

void Checkpoints::begin_writing(const std::string& folder, checkpoint::SaveRequest request) {
  problem_.reset();
  wrote_s_ = 0;
  writer_ = std::thread([this, folder, request = std::move(request)] {
    const Stopwatch watch;
    try {
      const auto fill = [this](checkpoint::RankFileWriter& writer) { copy_.write_to(writer); };
      if (spread_) {
        spread_->save(*behind_, request, fill, use_.passing);
      } else {
        save_step(env_, folder, request, fill);
      }
    } catch (const Error& error) {
      problem_ = error;
    } catch (const std::exception& error) {
      problem_ = as_error(error);
    }
    wrote_s_ = watch.elapsed_s();
    if (problem_) {
      log_error(use_.is_copy ? "there is no copy of step " : "step ", request.step,
                use_.is_copy ? ", the one before it is intact\n" : " is not saved, those before it are intact\n",
                problem_->what());
    }
  });
}

// Of the disks that the ranks write to, each with the ranks that do.
std::optional<Error> Checkpoints::room_problem(const std::string& folder, const std::vector<Start>& all,
                                               uint64_t spare) const {
  std::vector<std::vector<int>> disks(1);
  for (int rank = 0; rank < training_.world().size; ++rank) disks[0].push_back(rank);
  if (spread_) disks = spread_->members();
  for (size_t i = 0; i < disks.size(); ++i) {
    uint64_t bytes = kOverheadBytes;
    for (const int rank : disks[i]) bytes += all[static_cast<size_t>(rank)].bytes;
    const bool has_passed = spread_ && use_.passing == Passing::kNext;
    for (const int rank : disks[(i + disks.size() - 1) % disks.size()])
      bytes += has_passed ? all[static_cast<size_t>(rank)].bytes : 0;
    const uint64_t needed = bytes + spare, room = all[static_cast<size_t>(disks[i].front())].free_bytes;
    if (room >= needed) continue;
    return Error(ErrorKind::kEnvironment,
                 {.title = use_.is_copy ? "there is no room in memory for copies of the training"
                                        : "there is no room on the disk for a checkpoint",
                  .what = cat("it takes ", format_bytes(needed), ", ", format_bytes(room),
                              use_.is_copy ? " are left for it" : " are free"),
                  .where = cat(folder, disks.size() > 1 ? cat(" of rank ", disks[i].front()) : ""),
                  .fix = use_.is_copy ? "make /dev/shm larger (mount -o remount,size=...), or leave \"buddy\" out"
                                      : "remove what is not needed, keep fewer steps, or save to another disk"});
  }
  return std::nullopt;
}

SaveReport Checkpoints::save(const std::string& folder, const SaveOptions& options) {
  const Stopwatch watch;
  training_.before_save();
  SaveReport report{.step = training_.global_steps(), .waited_s = finish_previous()};
  open(folder);
  Start mine;
  std::optional<Error> problem;
  try {
    mine = prepare(folder);
  } catch (const Error& error) {
    problem = error;
  } catch (const std::exception& error) {
    problem = as_error(error);
  }
  const std::vector<Start> all = meet(mine, problem);
  for (const Start& start : all) report.bytes += start.bytes;
  if (auto no_room = room_problem(folder, all, options.spare_bytes)) throw Error(*no_room);
  add_buffers(all);
  copy_.take(slices_);
  checkpoint::SaveRequest request{.step = report.step,
                                  .rank = training_.world().rank,
                                  .world = training_.world().size,
                                  .id = all[0].id,
                                  .slices = to_save(std::exchange(slices_, {})),
                                  .keep = options.keep,
                                  .others_deadline_s = training_.world().group->deadline_s(),
                                  .hurry = &hurry_};
  if (request.rank == 0) request.head = head_of(options);
  begin_writing(folder, std::move(request));
  if (!options.in_background) wait();
  report.stopped_s = watch.elapsed_s();
  totals_.bytes += report.bytes;
  totals_.stopped_s += report.stopped_s;
  totals_.longest_stop_s = std::max(totals_.longest_stop_s, report.stopped_s);
  totals_.waited_s += report.waited_s;
  return report;
}

void Checkpoints::wait() {
  finish_previous();
  share_problem(std::exchange(problem_, std::nullopt));
}

}  // namespace weft::engine
