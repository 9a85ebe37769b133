#include "weft/engine/checkpoints.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

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
#include "weft/checkpoint/import_step.h"
#include "weft/checkpoint/kill_points.h"
#include "weft/checkpoint/store_names.h"
#include "weft/engine/agree.h"
#include "weft/engine/saved_gradients.h"
#include "weft/engine/saved_numbers.h"
#include "weft/engine/spread_store_impl.h"
#include "weft/engine/state_names.h"
#include "weft/engine/training.h"

namespace weft::engine {
namespace {

// Rounded up for what is not tensors: headers, the manifest, names in folders.
constexpr uint64_t kOverheadBytes = 1 << 20;
constexpr uint64_t kMaxLockBytes = 4096;
constexpr double kSharingDeadlineS = 10;
constexpr auto kLookAgain = std::chrono::milliseconds(20);

// Whole tensors, as slices.
checkpoint::LiveSlice whole(std::string name, const at::Tensor& tensor) {
  return {.tensor = std::move(name), .shape = tensor.sizes().vec(), .begin = 0, .values = tensor};
}

at::Tensor read_whole(checkpoint::StepReader& reader, const std::string& name, at::ScalarType type) {
  const at::Tensor out = at::empty(reader.manifest().tensors.at(name).shape, type);
  read_slices(reader, {whole(name, out)});
  return out;
}

bool has(const checkpoint::Manifest& manifest, const std::string& name) { return manifest.tensors.contains(name); }

std::string section(const checkpoint::Manifest& manifest, std::string_view name) {
  const auto found = manifest.sections.find(std::string(name));
  return found == manifest.sections.end() ? "" : found->second;
}

constexpr char kBetween = '\x1f';  // in no text of ours

// "what it was" and the rest of an Error, so that another rank can throw it too.
std::string pack(const Error& error) {
  const ErrorText& text = error.text();
  return cat(static_cast<int>(error.kind()), kBetween, text.title, kBetween, text.what, kBetween, text.where, kBetween,
             text.fix);
}

Error unpack(const std::string& packed, int rank) {
  std::vector<std::string> parts = split(packed, kBetween);
  parts.resize(5);
  const auto kind = parts[0] == "0" ? ErrorKind::kInput : parts[0] == "1" ? ErrorKind::kEnvironment : ErrorKind::kBug;
  return {kind, {.title = parts[1], .what = parts[2], .where = cat(parts[3], " (rank ", rank, ")"), .fix = parts[4]}};
}

Error as_error(const std::exception& error) {
  return {ErrorKind::kEnvironment, {.title = "the checkpoint could not be saved", .what = error.what()}};
}

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
      slices_.push_back(whole(cat(kCounterPrefix, name), tensor));
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
    slices_.push_back(whole(own_grad_name(training_.world().rank, name), tensor));
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
    if (rank == 0) slices_.push_back(whole(cat(kBufferPrefix, name), tensor.detach().contiguous()));
    if (all[static_cast<size_t>(rank)].buffers != all[0].buffers)
      slices_.push_back(whole(own_buffer_name(rank, name), tensor.detach().contiguous()));
  }
}

checkpoint::Manifest Checkpoints::head_of(const SaveOptions& options) const {
  const plan::Description plan = training_.description();
  checkpoint::Manifest out{.plan = to_hex(hashes_of(plan).all), .metrics = options.metrics};
  out.sections[std::string(kNumbersSection)] = training_.saved_numbers();
  out.sections[std::string(kPlanSection)] = plan::to_text(plan);
  if (!options.tag.empty()) out.sections[std::string(kTagSection)] = options.tag;
  if (options.data) out.sections[std::string(kDataSection)] = to_text(*options.data);
  for (const auto& [key, value] : options.client_state) out.sections[cat(kClientPrefix, key)] = value;
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

// --- Loading ---------------------------------------------------------------------------------------------------------

// How one rank fared with a step.
struct Checkpoints::Attempt {
  enum class Outcome { kLoaded, kPassedBy, kDamaged, kRefused } outcome = Outcome::kLoaded;
  std::string text = {};  // why not: an Error, packed
  LoadedCheckpoint loaded = {};
};

std::vector<checkpoint::StepPlace> Checkpoints::places_in(const std::string& folder) {
  look_at(folder);
  if (spread_) return spread_places();
  std::string mine;
  try {
    const bool looks = training_.world().rank == 0;
    for (const auto& place : looks ? checkpoint::list_steps(env_, folder) : std::vector<checkpoint::StepPlace>())
      mine += cat(place.step, " ", place.folder, "\n");
  } catch (const Error& error) {
    mine = cat("!", pack(error));
  }
  std::string all = exchange_texts(*training_.world().group, mine, training_.device())[0];
  if (all.starts_with('!')) throw unpack(all.substr(1), 0);
  std::vector<checkpoint::StepPlace> out;
  for (size_t end = all.find('\n'); end != std::string::npos; end = all.find('\n')) {
    const size_t space = all.find(' ');
    out.push_back({.step = std::stoll(all.substr(0, space)), .folder = all.substr(space + 1, end - space - 1)});
    all.erase(0, end + 1);
  }
  return out;
}

std::vector<checkpoint::StepPlace> Checkpoints::spread_places() {
  std::vector<checkpoint::StepPlace> out;
  for (const std::string& name : spread_->step_names(*training_.world().group)) {
    const auto plain = checkpoint::step_of(name),
               step = plain ? plain : checkpoint::step_of(name, checkpoint::kOldSuffix);
    out.push_back({.step = step.value(), .folder = cat(spread_->folder(), "/", name)});
  }
  return out;
}

namespace {

// Where the step under way began. One that began in the epoch before begins with this one.
data::SamplerState set_back(data::SamplerState state, const SavedNumbers& saved, int world) {
  state.consumed = std::max<int64_t>(0, state.consumed - saved.in_step * saved.micro_batch * world);
  return state;
}

LoadedCheckpoint facts_of(const checkpoint::Manifest& manifest, const std::string& folder, const Training& training) {
  LoadedCheckpoint out{
      .step = manifest.step, .saved_world = manifest.world, .folder = folder, .tag = section(manifest, kTagSection)};
  const SavedNumbers saved = read_numbers(section(manifest, kNumbersSection));
  out.micro_steps_done = training.done_here(saved);
  out.micro_steps_dropped = out.micro_steps_done == 0 ? saved.in_step : 0;
  if (const std::string text = section(manifest, kDataSection); !text.empty()) out.data = read_sampler_state(text);
  if (out.data && out.micro_steps_dropped > 0) out.data = set_back(*out.data, saved, manifest.world);
  for (const auto& [name, value] : manifest.sections) {
    if (name.starts_with(kClientPrefix)) out.client_state[name.substr(kClientPrefix.size())] = value;
  }
  return out;
}

}  // namespace

namespace {

bool is_optimizer_state(const std::string& name) { return name.starts_with(kOptimPrefix); }

// An imported step may come without an optimizer, and with buffers that nobody told from parameters.
bool has_only_weights(const checkpoint::Manifest& manifest) {
  if (section(manifest, cat(kClientPrefix, checkpoint::kImportedFrom)).empty()) return false;
  return std::ranges::none_of(manifest.tensors, [](const auto& one) { return is_optimizer_state(one.first); });
}

std::string buffer_in(const checkpoint::Manifest& manifest, const std::string& name) {
  const std::string usual = cat(kBufferPrefix, name), other = cat(kParamPrefix, name);
  return has_only_weights(manifest) && !has(manifest, usual) && has(manifest, other) ? other : usual;
}

}  // namespace

void Checkpoints::check_fits(const checkpoint::Manifest& manifest, const std::string& folder) {
  checkpoint::Shapes wanted = training_.state_shapes();
  if (has_only_weights(manifest)) std::erase_if(wanted, [](const auto& one) { return is_optimizer_state(one.first); });
  for (const auto& [name, tensor] : training_.model().buffers) wanted[buffer_in(manifest, name)] = tensor.sizes().vec();
  auto lines =
      misfits(manifest, wanted, {std::string(kParamPrefix), std::string(kOptimPrefix), std::string(kBufferPrefix)});
  const std::string own_state = user_state_name(training_.world().rank, training_.world().size);
  if (training_.has_user_optimizer() && !has(manifest, own_state)) lines.push_back(cat("'", own_state, "' is missing"));
  if (lines.empty()) return;
  throw Error(ErrorKind::kInput, {.title = "the checkpoint is that of another model or optimizer",
                                  .what = join(lines, "\n"),
                                  .where = folder,
                                  .fix = "load it into the model and with the optimizer it was saved from"});
}

// No collective in here: a rank may fail where others do not.
Checkpoints::Attempt Checkpoints::try_to_load(const checkpoint::StepPlace& place,
                                              const LoadCheckpointOptions& options) {
  Attempt out{.outcome = Attempt::Outcome::kDamaged};
  try {
    checkpoint::Manifest manifest = open_step(env_, place);
    pass(checkpoint::KillPoint::kLoadOpened);
    out.outcome = Attempt::Outcome::kRefused;
    out.loaded = facts_of(manifest, place.folder, training_);
    if (!options.tag.empty() && options.tag != out.loaded.tag) {
      out.outcome = Attempt::Outcome::kPassedBy;
      return out;
    }
    if (options.accept) options.accept(out.loaded);
    check_fits(manifest, place.folder);
    out.outcome = Attempt::Outcome::kDamaged;
    checkpoint::StepReader reader(env_, place.folder, std::move(manifest));
    read_all(reader);
    pass(checkpoint::KillPoint::kLoadRead);
    out.outcome = Attempt::Outcome::kLoaded;
  } catch (const Error& error) {
    out.text = pack(error);
  } catch (const std::exception& error) {
    out.text = pack(as_error(error));
  }
  return out;
}

void Checkpoints::read_all(checkpoint::StepReader& reader) {
  const at::NoGradGuard no_grad;
  const checkpoint::Manifest& manifest = reader.manifest();
  const int rank = training_.world().rank, world = training_.world().size;
  const bool same_world = manifest.world == world;
  const bool only_weights = has_only_weights(manifest);
  std::vector<checkpoint::LiveSlice> slices = training_.state_slices(StateOf::kOwn);
  if (only_weights) std::erase_if(slices, [](const auto& slice) { return is_optimizer_state(slice.tensor); });
  read_slices(reader, slices);
  for (const auto& [name, tensor] : training_.model().buffers) {
    const std::string own = own_buffer_name(rank, name);
    const std::string from = same_world && has(manifest, own) ? own : buffer_in(manifest, name);
    read_slices(reader, {whole(from, tensor)});
  }
  NamedTensors counters;
  for (const auto& [name, tensor] : training_.updater().counters()) {
    const std::string saved = cat(kCounterPrefix, name);
    if (has(manifest, saved)) counters.emplace_back(name, read_whole(reader, saved, tensor.scalar_type()));
  }
  if (only_weights) {
    if (rank == 0) log_info("the step has weights only: the optimizer begins anew");
  } else {
    training_.updater().set_counters(counters);
  }
  if (training_.has_user_optimizer()) {
    training_.updater().set_user_bytes(read_whole(reader, user_state_name(rank, world), at::kByte));
  }
  for (const std::string& where : training_.random_kinds()) {
    const bool is_mine = has(manifest, random_name(where, rank));
    const std::string name = random_name(where, is_mine ? rank : 0);
    if (has(manifest, name)) training_.set_random_state(where, read_whole(reader, name, at::kByte), is_mine);
  }
  const SavedNumbers saved = read_numbers(section(manifest, kNumbersSection));
  training_.set_saved_numbers(saved);
  read_gradients(reader, saved, training_);
}

// What one rank cannot read no rank goes on from.
bool Checkpoints::all_loaded(const Attempt& mine, std::optional<LoadedCheckpoint>& loaded,
                             std::vector<std::string>& passed_over) {
  using Outcome = Attempt::Outcome;
  const auto texts =
      exchange_texts(*training_.world().group, cat(static_cast<int>(mine.outcome), mine.text), training_.device());
  const auto is = [](const std::string& text, Outcome outcome) {
    return text.starts_with(cat(static_cast<int>(outcome)));
  };
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (is(texts[rank], Outcome::kRefused)) throw unpack(texts[rank].substr(1), static_cast<int>(rank));
  }
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (!is(texts[rank], Outcome::kDamaged)) continue;
    const Error damage = unpack(texts[rank].substr(1), static_cast<int>(rank));
    passed_over.emplace_back(damage.what());
    if (training_.world().rank == 0)
      log_warn("passing over a damaged checkpoint and trying the one before it\n", damage.what());
    return false;
  }
  if (is(texts[0], Outcome::kPassedBy)) return false;
  loaded = mine.loaded;
  return true;
}

// Which tensors besides parameters and optimizer state a rank reads.
bool Checkpoints::reads(const checkpoint::Manifest& manifest, const std::string& name) const {
  const int rank = training_.world().rank, world = training_.world().size;
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  if (begins(kCounterPrefix) || begins(kBufferPrefix) || begins(kGradPrefix)) return true;
  if (begins(own_buffer_name(rank, "")) || name == user_state_name(rank, world)) return true;
  if (begins("own_grad/")) return manifest.world != world || begins(own_grad_name(rank, ""));
  for (const std::string& where : training_.random_kinds()) {
    if (name == random_name(where, rank) || name == random_name(where, 0)) return true;
  }
  return false;
}

std::set<std::string> Checkpoints::files_needed(const checkpoint::Manifest& manifest) {
  std::set<std::string> out;
  try {
    check_fits(manifest, "");
  } catch (const Error&) {
    return out;  // it will be refused
  }
  const checkpoint::StepReader reader(env_, "", manifest);
  const auto add = [&](const std::string& name, uint64_t begin, uint64_t end) {
    for (const auto& read : reader.plan_reads(name, begin, end)) out.insert(read.file);
  };
  for (const auto& slice : training_.state_slices(StateOf::kOwn)) {
    const auto begin = static_cast<uint64_t>(slice.begin);
    add(slice.tensor, begin, begin + static_cast<uint64_t>(slice.values.numel()));
  }
  for (const auto& [name, tensor] : manifest.tensors) {
    if (reads(manifest, name)) add(name, 0, numel_of(tensor));
  }
  return out;
}

Checkpoints::Attempt Checkpoints::bring_and_load(checkpoint::StepPlace place, const LoadCheckpointOptions& options) {
  if (spread_) {
    const std::string name = place.folder.substr(place.folder.rfind('/') + 1);
    const auto found = spread_->bring(*training_.world().group, name,
                                      [this](const checkpoint::Manifest& manifest) { return files_needed(manifest); });
    if (found.missing) return {.outcome = Attempt::Outcome::kDamaged, .text = pack(*found.missing)};
    place.folder = found.folder;
  }
  Attempt out = try_to_load(place, options);
  out.loaded.is_copy = use_.is_copy;
  return out;
}

std::optional<LoadedCheckpoint> Checkpoints::load(const std::string& folder, const LoadCheckpointOptions& options,
                                                  const Copies& copies) {
  const Stopwatch watch;
  finish_previous();
  training_.before_load();
  const auto places = folder.empty() ? std::vector<checkpoint::StepPlace>() : places_in(folder);
  std::vector<std::pair<Checkpoints*, checkpoint::StepPlace>> candidates;
  if (copies.store != nullptr) {
    copies.store->finish_previous();
    for (const auto& place : copies.store->places_in(copies.folder)) {
      if (places.empty() || place.step >= places.front().step) candidates.emplace_back(copies.store, place);
    }
  }
  for (const auto& place : places) candidates.emplace_back(this, place);
  std::optional<LoadedCheckpoint> loaded;
  std::vector<std::string> passed_over;
  try {
    for (const auto& [store, place] : candidates) {
      if (all_loaded(store->bring_and_load(place, options), loaded, passed_over)) break;
    }
  } catch (const Error&) {  // refused before anything was read, on all ranks
    training_.after_load(passed_over.empty());
    throw;
  }
  // What is in memory after a damaged step is of several steps.
  training_.after_load(loaded.has_value() || passed_over.empty());
  totals_.load_s = watch.elapsed_s();
  if (loaded) {
    loaded->passed_over = std::move(passed_over);
    if (loaded->micro_steps_dropped > 0 && training_.world().rank == 0) {
      log_warn("the step that was under way begins anew: ", loaded->micro_steps_dropped,
               " micro-steps of it were done, which is no whole number with this gradient_accumulation_steps");
    }
  } else if (!passed_over.empty()) {
    throw Error(ErrorKind::kInput, {.title = "none of the checkpoints is intact",
                                    .what = join(passed_over, "\n"),
                                    .where = folder,
                                    .fix = "give another folder, or start anew in one"});
  }
  return loaded;
}

}  // namespace weft::engine
