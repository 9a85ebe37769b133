// A model in training as a checkpoint sees it: named tensors, of which this rank has parts, and a few numbers.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <cstring>
#include <mutex>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/checkpoint/state_names.h"
#include "weft/engine/saved_numbers.h"
#include "weft/engine/training.h"

namespace weft::engine {
namespace {

// A parameter belongs to one run of the optimizer, so its elements lie in one piece.
at::Tensor range_of(const Pieces& pieces, int64_t first, int64_t count) {
  for (const at::Tensor& piece : pieces) {
    if (first < piece.numel()) return piece.narrow(0, first, count);
    first -= piece.numel();
  }
  WEFT_CHECK(false);
}

// One generator each for the CPU and, where there is one, this rank's device.
std::vector<std::pair<std::string, at::Generator>> generators(at::Device device) {
  std::vector<std::pair<std::string, at::Generator>> out = {
      {"cpu", at::globalContext().defaultGenerator(at::Device(at::kCPU))}};
  if (!device.is_cpu()) out.emplace_back("device", at::globalContext().defaultGenerator(device));
  return out;
}

// For a rank that did not exist: its own numbers, the same each time.
uint64_t seed_after(const at::Tensor& state, int rank) {
  Hasher hasher;
  hasher.update({static_cast<const std::byte*>(state.const_data_ptr()), state.nbytes()});
  hasher.update(std::as_bytes(std::span(&rank, 1)));
  return hasher.finish().low;
}

std::vector<double> base_lrs_of(const ParameterGroups& groups) {
  std::vector<double> out;
  for (const auto& settings : groups.settings) out.push_back(optim::lr_of(settings));
  return out;
}

}  // namespace

// Whoever has everything writes the slice that would be its own.
std::vector<Part> Training::parts_for(int bucket, StateOf of) const {
  const bool only_slice = is_sharded() || of == StateOf::kShare;
  std::vector<Part> parts = parts_of(*plan_, bucket, only_slice ? std::optional(world_.rank) : std::nullopt);
  std::erase_if(parts, [](const Part& part) { return part.count == 0; });
  if (is_sharded() || !only_slice) return parts;
  for (Part& part : parts) part.first += world_.rank * plan_->layout.bucket(bucket).slice_elements;
  return parts;
}

void Training::add_slices(std::vector<checkpoint::LiveSlice>& out, const std::string& prefix, int bucket,
                          const Pieces& pieces, StateOf of) const {
  for (const Part& part : parts_for(bucket, of)) {
    const plan::Parameter& parameter = plan_->table[part.parameter];
    out.push_back({.tensor = cat(prefix, parameter.name),
                   .shape = parameter.shape,
                   .begin = part.parameter_first,
                   .values = range_of(pieces, part.first, part.count)});
  }
}

// Frozen parameters that are in no bucket: every rank has all of them.
void Training::add_loose(std::vector<checkpoint::LiveSlice>& out, StateOf of) const {
  for (const int number : plan_->table.frozen()) {
    const at::Tensor& tensor = model_.parameters[static_cast<size_t>(number)].second;
    if (plan_->layout.home(number).bucket < buckets_->num_with_frozen() || tensor.numel() == 0) continue;
    checkpoint::LiveSlice slice{.tensor = cat(checkpoint::kParamPrefix, plan_->table[number].name),
                                .shape = tensor.sizes().vec(),
                                .begin = 0,
                                .values = tensor.detach()};
    if (of == StateOf::kShare) {
      slice.begin = tensor.numel() * world_.rank / world_.size;
      const int64_t end = tensor.numel() * (world_.rank + 1) / world_.size;
      slice.values = slice.values.reshape({-1}).narrow(0, slice.begin, end - slice.begin);
    }
    out.push_back(std::move(slice));
  }
}

// Kind by kind, so that what is read together lies together.
std::vector<checkpoint::LiveSlice> Training::state_slices(StateOf of) {
  const at::NoGradGuard no_grad;
  std::vector<checkpoint::LiveSlice> out;
  for (int bucket = 0; bucket < buckets_->num_with_frozen(); ++bucket) {
    const bool has_master = bucket < std::ssize(masters_);
    add_slices(out, std::string(checkpoint::kParamPrefix), bucket,
               {has_master ? masters_[static_cast<size_t>(bucket)] : own_parameters(bucket)}, of);
  }
  add_loose(out, of);
  for (const auto& [kind, flats] : updater_.state()) {
    for (int bucket = 0; bucket < std::ssize(flats); ++bucket) {
      if (flats[static_cast<size_t>(bucket)].empty()) continue;
      add_slices(out, cat(checkpoint::kOptimPrefix, kind, "/"), bucket, flats[static_cast<size_t>(bucket)], of);
    }
  }
  return out;
}

checkpoint::Shapes Training::state_shapes() {
  checkpoint::Shapes out;
  const FlatState state = updater_.state();
  for (int number = 0; number < plan_->table.size(); ++number) {
    const plan::Parameter& parameter = plan_->table[number];
    if (plan_->table.owner(number) != number || plan_->table.num_elements(number) == 0) continue;
    out[cat(checkpoint::kParamPrefix, parameter.name)] = parameter.shape;
    if (parameter.frozen) continue;
    for (const auto& [kind, flats] : state)
      out[cat(checkpoint::kOptimPrefix, kind, "/", parameter.name)] = parameter.shape;
  }
  return out;
}

NamedTensors Training::own_bytes() {
  NamedTensors out;
  for (auto& [where, generator] : generators(device_)) {
    const std::scoped_lock lock(generator.mutex());
    out.emplace_back(checkpoint::random_name(where, world_.rank), generator.get_state());
  }
  if (has_user_optimizer_)
    out.emplace_back(checkpoint::user_state_name(world_.rank, world_.size), updater_.user_bytes());
  return out;
}

void Training::set_random_state(const std::string& where, const at::Tensor& state, bool is_mine) {
  for (auto& [name, generator] : generators(device_)) {
    if (name != where) continue;
    const std::scoped_lock lock(generator.mutex());
    if (is_mine) {
      generator.set_state(state);
    } else {
      generator.set_current_seed(seed_after(state, world_.rank));
    }
  }
}

std::vector<std::string> Training::random_kinds() const {
  std::vector<std::string> out;
  for (const auto& [name, generator] : generators(device_)) out.push_back(name);
  return out;
}

std::string Training::saved_numbers() {
  return to_text(SavedNumbers{.global_steps = global_steps_,
                              .micro_steps = micro_steps_,
                              .skipped_steps = updater_.num_skipped(),
                              .lrs = updater_.lrs(),
                              .base_lrs = base_lrs_of(sorted_groups()),
                              .in_step = in_step_,
                              .accumulation_steps = accumulation_steps(),
                              .micro_batch = config_.train_micro_batch_size_per_gpu,
                              .loss_scale = updater_.loss_scale()});
}

// A rate that was set by hand goes on; one that the config has anew counts.
void Training::set_saved_numbers(const SavedNumbers& numbers) {
  global_steps_ = numbers.global_steps;
  micro_steps_ = numbers.micro_steps - numbers.in_step + done_here(numbers);
  updater_.set_num_skipped(numbers.skipped_steps);
  if (numbers.base_lrs == base_lrs_of(sorted_groups()) && numbers.lrs.size() == updater_.lrs().size()) {
    updater_.set_lrs(numbers.lrs);
  } else if (world_.rank == 0) {
    log_info("the learning rate is that of the config, which is another than when the checkpoint was saved");
  }
}

plan::Description Training::description() const { return describe(*plan_, what_must_agree()); }

// --- Around it -------------------------------------------------------------------------------------------------------

void Training::before_save() {
  check_alive();
  if (num_unstepped_ > 0) {
    misuse("save_checkpoint() between backward() and step()",
           "call step() first: before the accumulation boundary it only counts");
  }
  if (!guarded_.empty()) misuse("save_checkpoint() inside a GatheredParameters", "let the guard end first");
  reducer_->wait();  // what an earlier micro-step has sent
  gathering_->wait();
  if (residents_) residents_->take_written();
}

void Training::before_load() {
  check_alive();
  if (!guarded_.empty()) misuse("load_checkpoint() inside a GatheredParameters", "let the guard end first");
  zero_grad();
  if (auto table = table_now(model_, plan_->table)) follow_requires_grad(std::move(*table));
  gathering_->before_update();
  if (residents_) residents_->before_update();
}

void Training::after_load(bool is_whole) {
  const at::NoGradGuard no_grad;
  for (int bucket = 0; bucket < std::ssize(masters_); ++bucket) {
    own_parameters(bucket).copy_(masters_[static_cast<size_t>(bucket)]);
  }
  if (residents_) residents_->after_load();
  gathering_->after_load();
  if (!is_whole) dead_ = "a checkpoint could not be loaded, and some of the state may be its";
}

}  // namespace weft::engine
