#include "weft/engine/training.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <atomic>
#include <cmath>
#include <exception>
#include <map>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/engine/agree.h"
#include "weft/engine/gather_together.h"
#include "weft/engine/settings.h"
#include "weft/engine/sharded_init.h"
#include "weft/memory/loose_storage.h"
#include "weft/monitor/span.h"

namespace weft::engine {
namespace {

constexpr std::string_view kMaster = "fp32";  // names masters in the state

std::string microseconds_text(double seconds) { return cat(std::llround(seconds * 1e6), " us"); }

void add_to(ReduceTotals& sum, const ReduceTotals& more) {
  sum.num_collectives += more.num_collectives;
  sum.sent_bytes += more.sent_bytes;
  sum.gathered_bytes += more.gathered_bytes;
  sum.exposed_s += more.exposed_s;
}

ReduceTotals of_parameters(ReduceTotals totals) {
  totals.gathered_bytes = totals.sent_bytes;
  return totals;
}

NamedTensors copy_of(NamedTensors tensors) {
  for (auto& [name, tensor] : tensors) tensor = tensor.clone();
  return tensors;
}

// Groups of the same ranks that take collectives in turn. A network has two ends and a way between: two at once keep it full.
// Gathers have lanes that the user's own collectives do not wait behind. Memory needs neither.
struct Lanes {
  std::vector<std::shared_ptr<comm::Group>> reduce, gather;
};

Lanes lanes_of(const World& world) {
  const std::string_view transport = world.group->transport();
  const std::vector<int> all = all_ranks(*world.group);
  if (world.size > 1 && transport == "gloo") {
    const auto second = world.group->split(all, "second lane");
    return {{world.group, second}, {second, world.group->split(all, "third lane")}};
  }
  if (world.size > 1 && transport == "nccl") return {{world.group}, {world.group->split(all, "gathers")}};
  return {{world.group}, {world.group}};
}

void warn_of(const std::vector<std::string>& names, std::string_view what) {
  if (names.empty()) return;
  log_warn("parameter '", names.front(), "'", names.size() > 1 ? cat(" and ", names.size() - 1, " more") : "", what);
}

std::vector<comm::Group*> pointers(const std::vector<std::shared_ptr<comm::Group>>& groups) {
  std::vector<comm::Group*> out;
  for (const auto& group : groups) out.push_back(group.get());
  return out;
}

}  // namespace

Training::Training(ModelTensors model, config::Resolved config, World world, EngineOptions options)
    : world_(std::move(world)),
      has_user_optimizer_(options.optimizer != nullptr),
      config_(has_user_optimizer_ ? for_user_optimizer(std::move(config)) : std::move(config)),
      model_(with_defined_buffers(std::move(model))),
      look_again_(std::move(options.look_again)),
      groups_(std::move(options.groups)),
      device_(device_of(model_)),
      updater_(config_, std::move(options.optimizer)),
      copies_(*this, Env::posix(), {.is_spread = true, .passing = Passing::kNext, .is_copy = true}),
      checkpoints_(*this, Env::posix(), {.is_spread = config_.checkpoint.use_node_local_storage}) {
  if (config_.weft.matmul == config::Matmul::kAuto) fast_products_.emplace();
  check_supported(config_);
  check_world(config_, world_.size);
  const plan::ParameterTable table = table_of(model_);
  check_types(table, config_);
  if (world_.rank == 0)
    warn_of(aliased(model_),
            " had a view or detach()ed tensor before initialize(): it keeps the values and the memory of now. Make it "
            "after the first step, or let go of it");
  plan::PlanOptions plan_of_config = plan_options(config_, *world_.group, device_);
  const auto together = take_groups(model_);
  if (plan_of_config.stage >= 3) plan_of_config.layout.together = numbers_of(together, model_, table);
  plan_.emplace(make_plan(in_precision(table, config_), std::move(plan_of_config)));
  check_agreement(*world_.group, describe(*plan_, what_must_agree()), device_);
  broadcast_model(*world_.group, model_);
  Lanes lanes = lanes_of(world_);
  reduce_lanes_ = std::move(lanes.reduce);
  gather_lanes_ = std::move(lanes.gather);
  if (gathers_touched() && world_.size > 1 && !device_.is_cpu())
    gather_order_ = world_.group->split_on_host(all_ranks(*world_.group), "order of gathers");
  learnt_ = world_.size == 1;  // nobody waits for a bucket
  wants_tuning_ = can_be_tuned();
  begin_step_times();
  tell_of_accumulation();
  // Not sooner: what is refused leaves the model as it was, with the gradients that another engine may be adding up.
  const auto earlier = drop_earlier_gradients(model_);
  if (world_.rank == 0) warn_of(earlier, " had a gradient before initialize(): it is dropped, and counts in no step");
  lay_out(plan_->table, plan_->options.layout);
  convert_the_rest(model_, config_);
  forget_grown_up();
  watch_gradients();
  listed_.emplace(*this, model_);
}

void Training::watch_gradients() {
  hooks_.reset();
  std::vector<GradientHooks::Watched> watched;
  for (const int parameter : plan_->table.trainable()) {
    watched.push_back({parameter, model_.parameters[static_cast<size_t>(parameter)].second});
  }
  hooks_ = std::make_unique<GradientHooks>(std::move(watched), [this](int parameter) { reducer_->note(parameter); });
}

// Whoever keeps the model keeps whole parameters. An exception on its way may be that of a rank that is gone: nobody waits for it.
void Training::leave_whole() {
  if (!gathering_ || std::uncaught_exceptions() > 0) return;
  try {
    gathering_->wait();
  } catch (const std::exception& error) {
    log_error("the last step's parameters did not all come: ", error.what());
  }
}

Training::~Training() {
  if (dead_.empty()) {
    leave_whole();
    return;
  }
  checkpoints_.hurry();
  copies_.hurry();
}

ParameterGroups Training::sorted_groups() const {
  const auto base = has_user_optimizer_ ? optim::UpdateSettings() : optim::read_optimizer(config_.optimizer);
  return sort_out(groups_, model_, plan_->table, base);
}

std::vector<plan::SharedSetting> Training::what_must_agree() const {
  std::vector<plan::SharedSetting> out = shared_settings(config_);
  out.push_back({"EngineOptions.optimizer", has_user_optimizer_ ? "given" : "none"});
  for (const std::string& group : describe(sorted_groups()))
    out.push_back({cat("parameter_group_", out.size()), group});
  return out;
}

// --- Where everything lies -------------------------------------------------------------------------------------------

at::Tensor Training::own_part(const at::Tensor& bucket) const {
  return is_sharded() ? memory::slice_of(bucket, world_.rank, world_.size) : bucket;
}

at::Tensor Training::own_parameters(int bucket) const {
  return residents_ ? residents_->slice(bucket) : own_part(buckets_->parameters(bucket));
}

void Training::wait_for_parameters() {
  gathering_->wait();
  if (residents_) residents_->hold_all();
}

void Training::lay_out(plan::ParameterTable table, plan::LayoutOptions layout) {
  updater_.check_can_move();
  const Moving before = what_moves();
  const NamedTensors state = state_to_move();
  if (residents_) residents_->give_up();
  const bool had_state = updater_.has_state();
  const std::vector<double> last_lrs = updater_.lrs();
  plan::PlanOptions options = plan_->options;
  options.layout = std::move(layout);
  plan_.emplace(make_plan(std::move(table), std::move(options)));
  make_buckets();
  make_masters();
  make_reducer();
  set_masters(state);
  move(before);
  updater_.use(update_targets(), sorted_groups());
  if (!had_state) return;
  set_optimizer_state(state);
  updater_.set_lrs(last_lrs);
}

// Each rank its own part, but all of them parameter by parameter: one that a ShardedInit cut is made whole for it.
void Training::set_masters(const NamedTensors& state) {
  if (masters_.empty()) return;
  const std::map<std::string, at::Tensor> by_name(state.begin(), state.end());
  for (const int parameter : plan_->table.trainable()) {
    const auto found = by_name.find(cat(kMaster, ".", plan_->table[parameter].name));
    if (found == by_name.end()) continue;  // move() brings it
    const HeldWhole held(found->second);
    write_part({masters_[static_cast<size_t>(plan_->layout.home(parameter).bucket)]}, parameter, found->second);
  }
}

// Of a parameter that has none yet: its value, and what moments begin with. Values only where there will be masters: whoever keeps one
// keeps its memory while slices are made of all of them.
NamedTensors Training::state_to_move() {
  NamedTensors out;
  const auto has_master = [&](int number) {
    return plan_->table[number].dtype != plan::Dtype::kFp32 && !has_bf16_masters(config_);
  };
  if (updater_.has_state()) {
    updater_.let_join(plan_->table.frozen());
    out = copy_of(optimizer_state());
  }
  for (size_t i = 0; i < model_.parameters.size(); ++i) {
    const auto& [name, tensor] = model_.parameters[i];
    if (buckets_ && !plan_->table[static_cast<int>(i)].frozen) continue;
    if (has_master(static_cast<int>(i))) out.emplace_back(cat(kMaster, ".", name), tensor.detach());
    if (!updater_.has_state()) continue;
    for (const auto& [kind, flats] : updater_.state()) {
      const at::Tensor one = at::full({}, updater_.initial_state(kind), at::TensorOptions().device(device_));
      out.emplace_back(cat(kind, ".", name), one.expand(tensor.sizes()));
    }
  }
  return out;
}

void Training::make_buckets() {
  if (gathering_) gathering_->wait();
  const auto allocate = [this](int64_t count, at::ScalarType type) {
    return allocate_on(*world_.group, device_, count, type);
  };
  memory::FlatOptions memory{.allocate_gradients = allocate,
                             .num_buffers = plan::num_gradient_buffers(*plan_, plan_->options.stage),
                             .with_frozen = stage() >= 3};
  memory.gradients_come_and_go = !device_.is_cpu() && stage() < 2 && !plan::adds_reduced(*plan_, plan_->options.stage);
  if (reads_in_place(plan_->options)) {
    memory.allocate_parameters = [this](int64_t count, at::ScalarType type) {
      return world_.group->allocate_common(count, type);
    };
  } else if (gathers_touched()) {
    // Each has memory while it is filled, one after the other.
    memory.allocate_parameters = [this](int64_t count, at::ScalarType type) {
      return memory::without_memory(count, type, device_);
    };
  } else if (is_sharded()) {
    memory.allocate_parameters = allocate;
  }
  std::vector<at::Tensor> parameters;
  for (const auto& [name, tensor] : model_.parameters) parameters.push_back(tensor);
  if (reducer_) add_to(replaced_, reducer_->totals());
  if (gathering_) add_to(replaced_, of_parameters(gathering_->totals()));
  if (residents_) add_to(replaced_, of_parameters(residents_->totals()));
  const auto before = std::exchange(
      buckets_, std::make_unique<memory::FlatBuckets>(*plan_, std::move(parameters), memory));  // until all are copied
  fill_buckets();
  gathering_ = std::make_unique<Gathering>(pointers(gather_lanes_), *buckets_, bring_of(config_, *plan_),
                                           plan_->options.host_copy);
}

bool Training::writes_common() const {
  return world_.rank % (plan_->options.host_copy > 0 ? plan_->options.host_copy : world_.size) == 0;
}

void Training::fill_buckets() {
  residents_.reset();
  if (gathers_touched()) {
    residents_ = std::make_unique<Residents>(pointers(gather_lanes_), gather_order_.get(), *plan_, *buckets_,
                                             residency_limits(config_));
    return;
  }
  const bool common = reads_in_place(plan_->options);
  if (!common || writes_common()) {
    buckets_->fill();
  } else {
    // One rank fills, but what a ShardedInit cut all ranks make whole, one after the other.
    for (const auto& bucket : plan_->layout.buckets) {
      for (const auto& place : bucket.places)
        const HeldWhole held(model_.parameters[static_cast<size_t>(place.parameter)].second);
    }
  }
  if (common) world_.group->barrier();
  buckets_->lay_in();
}

void Training::make_masters() {
  masters_.clear();
  if (has_bf16_masters(config_)) return;
  for (int bucket = 0; bucket < buckets_->size(); ++bucket) {
    const at::Tensor own = own_parameters(bucket);
    if (own.scalar_type() != at::kFloat) masters_.push_back(at::zeros({own.numel()}, own.options().dtype(at::kFloat)));
  }
  WEFT_CHECK(masters_.empty() || std::ssize(masters_) == buckets_->size());
}

void Training::make_reducer() {
  const ReduceSettings settings = reduce_settings(config_, *plan_);
  if (settings.contiguous) buckets_->attach_present_gradients();
  std::vector<int> num_arrivals;
  if (reducer_) num_arrivals = reducer_->log().num_arrivals;
  for (int& count : num_arrivals) count = std::max(count, 1);
  reducer_ = std::make_unique<Reducer>(pointers(reduce_lanes_), *buckets_, settings, std::move(num_arrivals));
}

UpdateTargets Training::update_targets() const {
  UpdateTargets out{.table = &plan_->table, .shared_with = sharers()};
  for (int bucket = 0; bucket < buckets_->size(); ++bucket) {
    const at::Tensor own = own_parameters(bucket);
    out.params.push_back(masters_.empty() ? own : masters_[static_cast<size_t>(bucket)]);
    out.copies.push_back(masters_.empty() ? at::Tensor() : own);
    out.grads.push_back(reducer_->result(bucket));
    out.parts.push_back(parts_of(*plan_, bucket, is_sharded() ? std::optional(world_.rank) : std::nullopt));
  }
  return out;
}

FlatState Training::masters() const {
  if (masters_.empty()) return {};
  FlatState out;
  for (const at::Tensor& master : masters_) out[std::string(kMaster)].push_back({master});
  return out;
}

NamedTensors Training::optimizer_state() {
  FlatState all = updater_.state();
  all.merge(masters());
  NamedTensors out = gather_state({all, *plan_, sharers()});
  for (auto& counter : updater_.counters()) out.push_back(std::move(counter));
  for (auto& bytes : updater_.user_state(*world_.group)) out.push_back(std::move(bytes));
  return out;
}

void Training::set_optimizer_state(const NamedTensors& state) {
  FlatState all = updater_.state();
  all.merge(masters());
  set_state({all, *plan_, sharers()}, state);
  updater_.set_counters(state);
  updater_.set_user_state(*world_.group, state);
}

// --- Backward --------------------------------------------------------------------------------------------------------

void Training::check_alive() {
  if (!dead_.empty()) refuse_dead(dead_, world_.rank);
  try {
    gathering_->check();
    if (residents_) residents_->check();
  } catch (const std::exception& error) {
    dead_ = error.what();
    throw;
  }
}

void Training::check_model() {
  if (auto table = table_now(model_, plan_->table)) follow_requires_grad(std::move(*table));
  dead_ = change_of(model_, *plan_, *buckets_);
  if (dead_.empty() && look_again_) dead_ = look_again_(model_);
  if (!dead_.empty()) refuse_dead(dead_, world_.rank);
  if (!reads_in_place(plan_->options)) return;
  const std::string written = writes_.look(model_, *plan_);
  static std::atomic<bool> has_told = false;
  if (written.empty() || has_told.exchange(true)) return;
  log_warn("parameter '", written,
           "' was written to outside of step(): the ranks of this host share it. If they do not all write ",
           "the same, set \"weft\": {\"common_parameters\": false}",
           plan_->options.host_copy > 0 ? " and leave \"zero_hpz_partition_size\" out" : "");
}

void Training::backward(const at::Tensor& loss) {
  check_alive();
  if (num_modifying_ > 0)
    misuse("backward() inside a GatheredParameters with a modifier_rank", "let the guard end first");
  check_loss(loss);
  if (is_step_due_) {
    misuse("backward() twice without step()",
           "call step() after each backward(); or set \"managed_gradient_accumulation\": false, and step() ends a "
           "step of any number of them");
  }
  check_model();
  if (residents_ && !learnt_) learnt_ = each_comes_once(loss);
  const Span span({.name = "backward", .category = SpanCategory::kBackward});
  ++num_unstepped_;
  const bool at_once = goes_at_once(loss);
  tell_of_waiting(at_once);
  run_backward(loss, at_once);
  is_step_due_ = config_.managed_gradient_accumulation && num_no_sync_ == 0;
  holds_ = !reduces() || (is_learning() && !at_once);
  if (reduces() && holds_) return reduce_held();  // what waited for the end of backward
  has_reduced_ = has_reduced_ || reduces();
}

at::Tensor Training::scaled(const at::Tensor& loss) const {
  const int64_t parts = accumulation_steps();
  const at::Tensor part = parts == 1 ? loss : loss / static_cast<double>(parts);
  const double scale = updater_.loss_scale();
  return scale == 1 ? part : part.to(at::kFloat) * scale;
}

void Training::run_backward(const at::Tensor& loss, bool at_once) {
  // While something is to be learnt nothing is sent, unless it goes at once: the buckets may still change.
  reducer_->begin({.reduce = reduces() && (at_once || !is_learning()),
                   .at_once = at_once,
                   .learning = is_learning(),
                   .kept = num_no_sync_ > 0});
  try {
    scaled(loss).backward();
    reducer_->end_backward();
  } catch (const std::exception& error) {
    if (reducer_->abandon()) {
      dead_ = cat("backward failed while gradients were on their way: ", error.what());
    } else {
      zero_grad();
    }
    throw;
  }
}

// There must be something to hide communication behind, and buckets that are gradients' alone.
bool Training::can_be_tuned() const {
  if (config_.weft.bucket != config::BucketSizes::kAuto || world_.size == 1) return false;
  const bool overlaps = plan_->options.overlap;
  if (overlaps && !gathers_touched()) return true;
  if (world_.rank == 0)
    log_warn("\"bucket\": \"auto\" has no effect ",
             overlaps ? "with stage 3, whose buckets are those of its parameters"
                      : "without overlap: set \"zero_optimization\": {\"overlap_comm\": true}");
  return false;
}

void Training::decide_buckets() { learnt_ ? tune_buckets() : learn_order(); }

// All ranks come here together: at the end of the first backward that reduces, or in the step() after it.
void Training::learn_order() {
  std::vector<int> order = reducer_->log().order;
  std::vector<bool> came(static_cast<size_t>(plan_->table.size()), false);
  for (const int parameter : order) came[static_cast<size_t>(parameter)] = true;
  // Those that got no gradient go last: whatever they wait for, nobody waits for them.
  for (const int parameter : plan_->table.trainable()) {
    if (!came[static_cast<size_t>(parameter)]) order.push_back(parameter);
  }
  learnt_ = true;
  // Parameters that are in slices would all have to be whole to be laid out anew.
  if (residents_) return reducer_->expect_as_logged();
  plan::LayoutOptions layout = plan_->options.layout;
  layout.ready_order = broadcast_numbers(*world_.group, order, device_);
  lay_out(plan_->table, std::move(layout));
}

void Training::tune_buckets() {
  const at::ScalarType wire = memory::scalar_type(wire_dtype(plan_->options, plan_->layout.bucket(0)));
  tuned_ = tune(*world_.group, *plan_, reducer_->log(), wire, device_);
  plan::LayoutOptions layout = plan_->options.layout;
  layout.boundaries = tuned_->boundaries;
  lay_out(plan_->table, std::move(layout));
  wants_tuning_ = false;
  exposed_when_tuned_s_ = totals().exposed_comm_s;
  steps_when_tuned_ = global_steps_;
  if (world_.rank != 0) return;
  log_info("buckets: ", tuned_->num_buckets, " for a link of ", microseconds_text(tuned_->link.latency_s), " and ",
           format_rate(tuned_->link.bytes_per_s), "; expected to expose ", microseconds_text(tuned_->exposed_s),
           " a step (bound ", microseconds_text(tuned_->bound_s), ", before ", microseconds_text(tuned_->before_s),
           ")");
}

std::optional<EngineTuning> Training::tuning() const {
  if (!tuned_) return std::nullopt;
  const auto steps = static_cast<double>(std::max<int64_t>(1, global_steps_ - steps_when_tuned_));
  return EngineTuning{.num_buckets = tuned_->num_buckets,
                      .latency_s = tuned_->link.latency_s,
                      .bytes_per_s = tuned_->link.bytes_per_s,
                      .expected_s = tuned_->exposed_s,
                      .bound_s = tuned_->bound_s,
                      .expected_before_s = tuned_->before_s,
                      .achieved_s = (totals().exposed_comm_s - exposed_when_tuned_s_) / steps};
}

// --- Step ------------------------------------------------------------------------------------------------------------

void Training::begin_step_times() {
  step_span_ = begin_span({.name = "step", .category = SpanCategory::kStep, .key = "step"});
}

StepInfo Training::step() {
  check_alive();
  if (num_unstepped_ == 0) misuse("step() without backward()", "call backward(loss) before each step()");
  if (!guarded_.empty()) misuse("step() inside a GatheredParameters", "let the guard end first");
  const bool updates = at_boundary();
  is_step_due_ = false;
  micro_steps_ += num_unstepped_;
  in_step_ += std::exchange(num_unstepped_, 0);
  if (!updates) return {.lr = updater_.lr()};
  const int64_t num_parts = std::exchange(in_step_, 0);
  const StepInfo info = update(num_parts);
  step_span_.set_value(global_steps_);
  step_span_.end();
  begin_step_times();
  return info;
}

StepInfo Training::update(int64_t num_parts) {
  const double exposed_before_s = totals().exposed_comm_s;
  bool updated = false;
  try {
    if (holds_) reduce_held();
    if (!learnt_ && learns_in_step()) learn_order();
    ++global_steps_;
    gathering_->before_update();
    if (residents_) residents_->before_update();
    updated = updater_.update(*reducer_, global_steps_);
    if (residents_) residents_->after_update();
    gathering_->after_update();
  } catch (const std::exception& error) {
    dead_ = error.what();
    throw;
  }
  reducer_->forget();
  buckets_->forget_gradients();
  has_reduced_ = holds_ = false;
  try {
    updater_.check_hope();
  } catch (...) {  // the step was not made: whoever saves now goes on with it
    --global_steps_;
    micro_steps_ -= num_parts;
    throw;
  }
  return {.updated = updated, .lr = updater_.lr(), .exposed_comm_s = totals().exposed_comm_s - exposed_before_s};
}

void Training::zero_grad() {
  reducer_->forget();
  buckets_->forget_gradients();
  is_step_due_ = has_reduced_ = holds_ = false;
  num_unstepped_ = in_step_ = 0;
}

EngineTotals Training::totals() const {
  ReduceTotals all = replaced_;
  add_to(all, reducer_->totals());
  add_to(all, of_parameters(gathering_->totals()));
  if (residents_) add_to(all, of_parameters(residents_->totals()));
  return {.num_collectives = all.num_collectives,
          .sent_bytes = all.sent_bytes,
          .gathered_bytes = all.gathered_bytes,
          .exposed_comm_s = all.exposed_s,
          .peak_gathered_elements = residents_ ? residents_->peak_elements() : 0};
}

// In stage 3 every rank counts its slices, and small parameters that it keeps whole; or its share of the host's copy.
int64_t Training::parameter_bytes(int number) const {
  const plan::Bucket& bucket = plan_->layout.bucket(number);
  const int64_t bytes = bucket.used_elements() * plan::bytes_of(bucket.dtype);
  if (stage() < 3) return bytes;
  const int num_sharing = plan_->options.host_copy > 0 ? plan_->options.host_copy : world_.size;
  return (bytes + num_sharing - 1) / num_sharing + (residents_ && bucket.persistent ? bytes : 0);
}

EngineStateBytes Training::state_bytes() const {
  EngineStateBytes out;
  int64_t used = 0, padded = 0, kept = updater_.state_bytes();
  for (int bucket = 0; bucket < buckets_->size(); ++bucket) {
    const int64_t elements = plan_->layout.bucket(bucket).used_elements();
    used += elements;
    padded += own_parameters(bucket).numel();
    out.params += parameter_bytes(bucket);
    if (stage() < 2) out.grads += elements * buckets_->gradients(bucket).element_size();
    if (reducer_->adds_up()) {
      out.grads += elements * reducer_->result(bucket).element_size() / (is_sharded() ? world_.size : 1);
    }
  }
  for (const at::Tensor& master : masters_) kept += static_cast<int64_t>(master.nbytes());
  WEFT_CHECK_GT(padded, 0);
  const int64_t owned = is_sharded() ? (used + world_.size - 1) / world_.size : used;
  out.optimizer = kept / padded * owned;
  return out;
}

}  // namespace weft::engine
