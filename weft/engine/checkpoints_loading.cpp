// The half of checkpoints.h that reads.
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "weft/base/clock.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/checkpoint/import_step.h"
#include "weft/checkpoint/kill_points.h"
#include "weft/checkpoint/state_names.h"
#include "weft/checkpoint/store_names.h"
#include "weft/engine/agree.h"
#include "weft/engine/checkpoints.h"
#include "weft/engine/checkpoints_impl.h"
#include "weft/engine/saved_gradients.h"
#include "weft/engine/saved_numbers.h"
#include "weft/engine/spread_store_impl.h"
#include "weft/engine/training.h"

namespace weft::engine {
namespace {

bool has(const checkpoint::Manifest& manifest, const std::string& name) { return manifest.tensors.contains(name); }

std::string section(const checkpoint::Manifest& manifest, std::string_view name) {
  const auto found = manifest.sections.find(std::string(name));
  return found == manifest.sections.end() ? "" : found->second;
}

}  // namespace

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
  LoadedCheckpoint out{.step = manifest.step,
                       .saved_world = manifest.world,
                       .folder = folder,
                       .tag = section(manifest, checkpoint::kTagSection)};
  const SavedNumbers saved = read_numbers(section(manifest, checkpoint::kNumbersSection));
  out.micro_steps_done = training.done_here(saved);
  out.micro_steps_dropped = out.micro_steps_done == 0 ? saved.in_step : 0;
  if (const std::string text = section(manifest, checkpoint::kDataSection); !text.empty())
    out.data = read_sampler_state(text);
  if (out.data && out.micro_steps_dropped > 0) out.data = set_back(*out.data, saved, manifest.world);
  for (const auto& [name, value] : manifest.sections) {
    if (name.starts_with(checkpoint::kClientPrefix))
      out.client_state[name.substr(checkpoint::kClientPrefix.size())] = value;
  }
  return out;
}

}  // namespace

namespace {

bool is_optimizer_state(const std::string& name) { return name.starts_with(checkpoint::kOptimPrefix); }

// An imported step may come without an optimizer, and with buffers that nobody told from parameters.
bool has_only_weights(const checkpoint::Manifest& manifest) {
  if (section(manifest, cat(checkpoint::kClientPrefix, checkpoint::kImportedFrom)).empty()) return false;
  return std::ranges::none_of(manifest.tensors, [](const auto& one) { return is_optimizer_state(one.first); });
}

std::string buffer_in(const checkpoint::Manifest& manifest, const std::string& name) {
  const std::string usual = cat(checkpoint::kBufferPrefix, name), other = cat(checkpoint::kParamPrefix, name);
  return has_only_weights(manifest) && !has(manifest, usual) && has(manifest, other) ? other : usual;
}

}  // namespace

void Checkpoints::check_fits(const checkpoint::Manifest& manifest, const std::string& folder) {
  checkpoint::Shapes wanted = training_.state_shapes();
  if (has_only_weights(manifest)) std::erase_if(wanted, [](const auto& one) { return is_optimizer_state(one.first); });
  for (const auto& [name, tensor] : training_.model().buffers) wanted[buffer_in(manifest, name)] = tensor.sizes().vec();
  auto lines = misfits(manifest, wanted,
                       {std::string(checkpoint::kParamPrefix), std::string(checkpoint::kOptimPrefix),
                        std::string(checkpoint::kBufferPrefix)});
  const std::string own_state = checkpoint::user_state_name(training_.world().rank, training_.world().size);
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
    const std::string own = checkpoint::own_buffer_name(rank, name);
    const std::string from = same_world && has(manifest, own) ? own : buffer_in(manifest, name);
    read_slices(reader, {whole(from, tensor)});
  }
  NamedTensors counters;
  for (const auto& [name, tensor] : training_.updater().counters()) {
    const std::string saved = cat(checkpoint::kCounterPrefix, name);
    if (has(manifest, saved)) counters.emplace_back(name, read_whole(reader, saved, tensor.scalar_type()));
  }
  if (only_weights) {
    if (rank == 0) log_info("the step has weights only: the optimizer begins anew");
  } else {
    training_.updater().set_counters(counters);
  }
  if (training_.has_user_optimizer()) {
    training_.updater().set_user_bytes(read_whole(reader, checkpoint::user_state_name(rank, world), at::kByte));
  }
  for (const std::string& where : training_.random_kinds()) {
    const bool is_mine = has(manifest, checkpoint::random_name(where, rank));
    const std::string name = checkpoint::random_name(where, is_mine ? rank : 0);
    if (has(manifest, name)) training_.set_random_state(where, read_whole(reader, name, at::kByte), is_mine);
  }
  const SavedNumbers saved = read_numbers(section(manifest, checkpoint::kNumbersSection));
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
  if (begins(checkpoint::kCounterPrefix) || begins(checkpoint::kBufferPrefix) || begins(checkpoint::kGradPrefix))
    return true;
  if (begins(checkpoint::own_buffer_name(rank, "")) || name == checkpoint::user_state_name(rank, world)) return true;
  if (begins(checkpoint::kOwnGradPrefix)) return manifest.world != world || begins(checkpoint::own_grad_name(rank, ""));
  for (const std::string& where : training_.random_kinds()) {
    if (name == checkpoint::random_name(where, rank) || name == checkpoint::random_name(where, 0)) return true;
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
  finish_previous();
  training_.before_load();
  training_.world().group->barrier();  // ranks that are still building their model are no part of what a load takes
  const Stopwatch watch;
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
