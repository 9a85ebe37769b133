#include "weft/engine/training.h"

#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <numeric>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/engine/agree.h"
#include "weft/engine/optimizer_state.h"
#include "weft/engine/settings.h"
#include "weft/monitor/span.h"
#include "weft/optim/core/schedule_settings.h"

namespace weft::engine {
namespace {

// A model that is listed again costs names and maps; parameters that were added are found soon enough.
constexpr int64_t kLookAgainEvery = 1000;
// One bad batch is passed over; weights that give nothing but infinities will not recover by themselves.
constexpr int kMaxSkippedInARow = 10;

plan::Plan plan_of(const ModelTensors& model, const config::Resolved& config, const World& world) {
  return make_plan(table_of(model), plan::options_from(config, world.size));
}

std::string text_of(double seconds) { return cat(std::llround(seconds * 1e6), " us"); }

void add_to(ReduceTotals& sum, const ReduceTotals& more) {
  sum.num_collectives += more.num_collectives;
  sum.sent_bytes += more.sent_bytes;
  sum.exposed_s += more.exposed_s;
}

NamedTensors copy_of(NamedTensors tensors) {
  for (auto& [name, tensor] : tensors) tensor = tensor.clone();
  return tensors;
}

// A network has two ends and a way between: two collectives at once keep it full. Memory has not.
std::vector<std::shared_ptr<comm::Group>> lanes_of(const World& world) {
  std::vector<std::shared_ptr<comm::Group>> lanes = {world.group};
  if (world.size == 1 || world.group->transport() != "gloo") return lanes;
  std::vector<int> all(static_cast<size_t>(world.size));
  std::iota(all.begin(), all.end(), 0);
  lanes.push_back(world.group->split(all, "second lane"));
  return lanes;
}

[[noreturn]] void throw_dead(const std::string& why, int rank) {
  throw Error(ErrorKind::kBug, {.title = "this engine cannot go on",
                                .what = why,
                                .where = cat("rank ", rank),
                                .fix = "end the program and start it again from the last save"});
}

[[noreturn]] void misuse(std::string title, std::string fix) {
  throw Error(ErrorKind::kBug, {.title = std::move(title), .what = "", .where = "", .fix = std::move(fix)});
}

}  // namespace

Training::Training(ModelTensors model, config::Resolved config, World world, std::function<ModelTensors()> look_again)
    : world_(std::move(world)),
      config_(std::move(config)),
      model_(std::move(model)),
      look_again_(std::move(look_again)),
      device_(device_of(model_)) {
  check_supported(config_);
  plan_.emplace(plan_of(model_, config_, world_));
  check_types(plan_->table);
  check_agreement(*world_.group, describe(*plan_, shared_settings(config_)), device_);
  broadcast_model(*world_.group, model_);
  schedule_ = optim::read_schedule(config_.scheduler);
  lanes_ = lanes_of(world_);
  wants_tuning_ = config_.weft.bucket == config::BucketSizes::kAuto && world_.size > 1 && plan_->options.overlap;
  step_began_ns_ = now_ns();
  lay_out(plan_->options.layout);
  std::vector<GradientHooks::Watched> watched;
  for (const int parameter : plan_->table.trainable()) {
    watched.push_back({parameter, model_.parameters[static_cast<size_t>(parameter)].second});
  }
  hooks_ = std::make_unique<GradientHooks>(std::move(watched), [this](int parameter) { reducer_->note(parameter); });
}

Training::~Training() = default;

std::vector<at::Tensor> Training::parameter_tensors() const {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : model_.parameters) tensors.push_back(tensor);
  return tensors;
}

void Training::lay_out(plan::LayoutOptions layout) {
  plan::PlanOptions options = plan_->options;
  options.layout = std::move(layout);
  const auto allocate = [this](int64_t count, at::ScalarType type) {
    return allocate_on(*world_.group, device_, count, type);
  };
  // State that is there already (loaded before the first step, or buckets that are tuned) moves along.
  std::optional<NamedTensors> state;
  const double last_lr = lr();
  if (optimizer_) state = copy_of(gather_state({*optimizer_, *plan_, sharers()}));
  optimizer_.reset();
  plan_.emplace(make_plan(plan_->table, std::move(options)));
  memory::FlatOptions memory{.allocate_gradients = allocate};
  if (is_sharded()) memory.allocate_parameters = allocate;
  auto buckets = std::make_unique<memory::FlatBuckets>(*plan_, parameter_tensors(), memory);
  buckets->lay_in();
  const ReduceSettings settings = reduce_settings(config_, *plan_);
  if (settings.contiguous) buckets->attach_present_gradients();
  std::vector<int> num_arrivals;
  if (reducer_) {
    add_to(more_, reducer_->totals());
    num_arrivals = reducer_->log().num_arrivals;
    for (int& count : num_arrivals) count = std::max(count, 1);
  }
  std::vector<comm::Group*> lanes;
  for (const auto& lane : lanes_) lanes.push_back(lane.get());
  reducer_ = std::make_unique<Reducer>(std::move(lanes), *buckets, settings, std::move(num_arrivals));
  buckets_ = std::move(buckets);
  if (!state) return;
  set_optimizer_state(*state);
  set_lr(last_lr);
}

void Training::make_optimizer() {
  optim::ParamGroup group{.settings = optim::read_optimizer(config_.optimizer), .slices = {}};
  for (int bucket = 0; bucket < buckets_->size(); ++bucket) {
    group.slices.push_back({.name = slice_name(bucket),
                            .param = own_part(buckets_->parameters(bucket)),
                            .grad = own_part(buckets_->gradients(bucket))});
  }
  optimizer_.emplace(std::vector<optim::ParamGroup>{std::move(group)});
}

at::Tensor Training::own_part(const at::Tensor& bucket) const {
  return is_sharded() ? memory::slice_of(bucket, world_.rank, world_.size) : bucket;
}

std::vector<at::Tensor> Training::own_gradients() const {
  std::vector<at::Tensor> out;
  for (int bucket = 0; bucket < buckets_->size(); ++bucket) out.push_back(own_part(buckets_->gradients(bucket)));
  return out;
}

// Every rank has updated its slices.
void Training::gather_parameters() {
  std::vector<comm::Work> works;
  for (int bucket = 0; bucket < buckets_->size(); ++bucket) {
    const at::Tensor& whole = buckets_->parameters(bucket);
    works.push_back(world_.group->start(comm::all_gather(own_part(whole), whole)));
    ++more_.num_collectives;
    more_.sent_bytes += static_cast<int64_t>(whole.nbytes()) / world_.size * (world_.size - 1);
  }
  const Span span({.name = "wait for parameters", .category = SpanCategory::kExposedWait});
  const Stopwatch watch;
  for (const comm::Work& work : works) work.wait();
  more_.exposed_s += watch.elapsed_s();
}

bool Training::at_boundary() const {
  if (num_no_sync_ > 0) return false;
  if (!config_.managed_gradient_accumulation) return true;
  return in_step_ + 1 >= config_.gradient_accumulation_steps;
}

void Training::check_alive() const {
  if (!dead_.empty()) throw_dead(dead_, world_.rank);
}

void Training::die(std::string why) {
  dead_ = std::move(why);
  throw_dead(dead_, world_.rank);
}

void Training::check_loss(const at::Tensor& loss) const {
  if (!loss.defined()) misuse("backward() of an undefined loss", "return the loss from forward()");
  if (loss.numel() != 1) misuse(cat("the loss has ", loss.numel(), " elements"), "reduce it to one: loss.mean()");
  if (!loss.requires_grad()) {
    misuse("the loss does not depend on any parameter that requires a gradient",
           "compute it outside of NoGradGuard, and do not detach() it");
  }
}

void Training::check_parameters() {
  for (const int parameter : plan_->table.trainable()) {
    const auto& [name, tensor] = model_.parameters[static_cast<size_t>(parameter)];
    if (!buckets_->holds_parameter(parameter)) {
      die(cat("parameter '", name, "' was given other memory behind the engine's back; write into it with copy_()"));
    }
    if (!tensor.requires_grad()) {
      die(cat("requires_grad of parameter '", name, "' was switched off after initialize(); freeze it before"));
    }
  }
}

void Training::check_still_the_model() {
  if (!look_again_) return;
  const ModelTensors now = look_again_();
  if (now.parameters.size() == model_.parameters.size()) return;
  die(cat("the model has ", now.parameters.size(), " parameters, it had ", model_.parameters.size(),
          " at initialize(); register all of them before"));
}

void Training::backward(const at::Tensor& loss) {
  check_alive();
  check_loss(loss);
  if (has_gradients_ && num_no_sync_ == 0)
    misuse("backward() twice without step()", "call step() after each backward()");
  check_parameters();
  if (global_steps_ % kLookAgainEvery == 0 && in_step_ == 0) check_still_the_model();
  const Span span({.name = "backward", .category = SpanCategory::kBackward});
  run_backward(loss);
  has_gradients_ = true;
  if (!at_boundary() || !is_learning()) return;
  if (learnt_) {
    tune_buckets();
  } else {
    learn_order();
  }
  // What waited for the decision goes now.
  reducer_->begin({.reduce = true, .learning = true});
  reducer_->end_backward();
}

void Training::run_backward(const at::Tensor& loss) {
  // While something is to be learnt nothing is sent: the buckets may still change.
  reducer_->begin({.reduce = at_boundary() && !is_learning(), .learning = is_learning()});
  try {
    const auto parts = config_.managed_gradient_accumulation ? config_.gradient_accumulation_steps : 1;
    (parts == 1 ? loss : loss / static_cast<double>(parts)).backward();
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

// All ranks come here together, at the end of the first step's last backward.
void Training::learn_order() {
  std::vector<int> order = reducer_->log().order;
  std::vector<bool> came(static_cast<size_t>(plan_->table.size()), false);
  for (const int parameter : order) came[static_cast<size_t>(parameter)] = true;
  // Those that got no gradient go last: whatever they wait for, nobody waits for them.
  for (const int parameter : plan_->table.trainable()) {
    if (!came[static_cast<size_t>(parameter)]) order.push_back(parameter);
  }
  plan::LayoutOptions layout = plan_->options.layout;
  layout.ready_order = broadcast_numbers(*world_.group, order, device_);
  lay_out(std::move(layout));
  learnt_ = true;
}

void Training::tune_buckets() {
  const at::ScalarType wire = memory::scalar_type(wire_dtype(plan_->options, plan_->layout.bucket(0)));
  tuned_ = tune(*world_.group, *plan_, reducer_->log(), wire, device_);
  plan::LayoutOptions layout = plan_->options.layout;
  layout.boundaries = tuned_->boundaries;
  lay_out(std::move(layout));
  wants_tuning_ = false;
  exposed_when_tuned_s_ = totals().exposed_comm_s;
  steps_when_tuned_ = global_steps_;
  if (world_.rank != 0) return;
  log_info("buckets: ", tuned_->num_buckets, " for a link of ", text_of(tuned_->link.latency_s), " and ",
           format_rate(tuned_->link.bytes_per_s), "; expected to expose ", text_of(tuned_->exposed_s),
           " a step (bound ", text_of(tuned_->bound_s), ", before ", text_of(tuned_->before_s), ")");
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

StepInfo Training::step() {
  check_alive();
  if (!has_gradients_) misuse("step() without backward()", "call backward(loss) before each step()");
  has_gradients_ = false;
  ++micro_steps_;
  if (!at_boundary()) {
    ++in_step_;
    return {.lr = lr()};
  }
  in_step_ = 0;
  const StepInfo info = update();
  const int64_t ended_ns = now_ns();
  if (spans_on()) {
    record_span({.name = "step",
                 .category = SpanCategory::kStep,
                 .key = "step",
                 .value = global_steps_,
                 .start_ns = step_began_ns_,
                 .end_ns = ended_ns});
  }
  step_began_ns_ = ended_ns;
  return info;
}

// A pass over all gradients; DeepSpeed saves it in stage 0, too, where nobody clips.
bool Training::needs_norm() const { return config_.gradient_clipping > 0; }

StepInfo Training::update() {
  if (!optimizer_) make_optimizer();
  const double exposed_before_s = totals().exposed_comm_s;
  const int64_t skipped_before = skipped_steps_;
  ++global_steps_;
  try {
    if (needs_norm()) {
      reducer_->wait();
      update_clipped();
    } else {
      update_as_they_come();
    }
    if (is_sharded()) gather_parameters();
  } catch (const std::exception& error) {
    dead_ = error.what();
    throw;
  }
  buckets_->forget_gradients();
  return {.updated = skipped_steps_ == skipped_before,
          .lr = optimizer_->lr(0),
          .exposed_comm_s = totals().exposed_comm_s - exposed_before_s};
}

void Training::update_clipped() {
  const Span span({.name = "optimizer", .category = SpanCategory::kOptimizer});
  grad_norm_ = global_norm(own_gradients(), sharers());
  apply(grad_norm_);
}

// Nobody has to know all gradients first: a bucket is updated while later ones are on their way.
void Training::update_as_they_come() {
  follow_schedule();
  optimizer_->begin_step();
  reducer_->wait([this](int bucket) {
    const Span span({.name = "optimizer", .category = SpanCategory::kOptimizer, .bucket = bucket});
    optimizer_->step_slice(0, static_cast<size_t>(bucket));
  });
}

// Without a schedule the rate is whatever was set last.
void Training::follow_schedule() {
  if (!std::holds_alternative<optim::FixedLr>(schedule_)) optimizer_->follow(schedule_);
}

void Training::apply(const GradientNorm& norm) {
  const bool known = !norm.on_device().defined();
  if (known && !std::isfinite(norm.value())) return skip();
  skipped_in_a_row_ = 0;
  follow_schedule();
  if (known) return optimizer_->step(clip_factor(norm.value(), config_.gradient_clipping));
  optimizer_->step(clip_factor(norm.on_device(), config_.gradient_clipping));
}

void Training::skip() {
  ++skipped_steps_;
  log_warn("step ", global_steps_, " skipped: the gradient is not finite (", skipped_steps_, " so far)");
  if (++skipped_in_a_row_ < kMaxSkippedInARow) return;
  throw Error(ErrorKind::kEnvironment, {.title = "the gradient is no longer a number",
                                        .what = cat(skipped_in_a_row_, " steps in a row, at learning rate ", lr()),
                                        .where = cat("step ", global_steps_),
                                        .fix = "a smaller learning rate, a longer warm-up, or gradient_clipping"});
}

int64_t Training::skipped_steps() const { return skipped_steps_ + (optimizer_ ? optimizer_->num_left_out() : 0); }

void Training::zero_grad() {
  buckets_->forget_gradients();
  has_gradients_ = false;
  in_step_ = 0;
}

double Training::lr() const {
  if (optimizer_) return optimizer_->lr(0);
  return optim::lr_at(schedule_, 0, optim::lr_of(optim::read_optimizer(config_.optimizer)));
}

void Training::set_lr(double lr) {
  if (!optimizer_) make_optimizer();
  optimizer_->set_lr(0, lr);
}

EngineTotals Training::totals() const {
  ReduceTotals all = more_;
  add_to(all, reducer_->totals());
  return {.num_collectives = all.num_collectives, .sent_bytes = all.sent_bytes, .exposed_comm_s = all.exposed_s};
}

EngineStateBytes Training::state_bytes() const {
  EngineStateBytes out;
  int64_t used = 0, padded = 0;
  for (int bucket = 0; bucket < buckets_->size(); ++bucket) {
    const int64_t elements = plan_->layout.bucket(bucket).used_elements();
    used += elements;
    padded += plan_->layout.bucket(bucket).num_elements / (is_sharded() ? world_.size : 1);
    out.params += elements * buckets_->parameters(bucket).element_size();
    out.grads += elements * buckets_->gradients(bucket).element_size();
  }
  WEFT_CHECK_GT(padded, 0);
  const int64_t owned = is_sharded() ? (used + world_.size - 1) / world_.size : used;
  out.optimizer = optimizer_ ? optimizer_->state_bytes() / padded * owned : 0;
  return out;
}

NamedTensors Training::optimizer_state() {
  if (!optimizer_) make_optimizer();
  return gather_state({*optimizer_, *plan_, sharers()});
}

void Training::set_optimizer_state(const NamedTensors& state) {
  if (!optimizer_) make_optimizer();
  set_state({*optimizer_, *plan_, sharers()}, state);
}

}  // namespace weft::engine
