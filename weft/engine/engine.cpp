#include "weft/engine/engine.h"

#include "weft/base/env.h"
#include "weft/base/log.h"
#include "weft/comm/environment.h"
#include "weft/config/reading.h"
#include "weft/engine/settings.h"
#include "weft/engine/training.h"
#include "weft/monitor/comms_log.h"
#include "weft/monitor/span.h"

namespace weft {
namespace {

void log_comms(const config::CommsLogger& config, int rank) {
  if (!config.enabled) return;
  CommsLogOptions options{.verbose = config.verbose && rank == 0, .all = config.prof_all};
  for (const config::Value& name : config.prof_ops.items) options.operations.push_back(name.text);
  comms_log().start(std::move(options));
}

}  // namespace

Engine::Engine(engine::ModelTensors model, config::Resolved config, World world, EngineOptions options)
    : it_(std::make_unique<engine::Training>(std::move(model), std::move(config), std::move(world),
                                             std::move(options))) {
  log_comms(it_->config().comms_logger, it_->world().rank);
}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

void Engine::backward(const at::Tensor& loss) { it_->backward(loss); }
StepInfo Engine::step() { return it_->step(); }
bool Engine::is_gradient_accumulation_boundary() const { return it_->at_boundary(); }
void Engine::zero_grad() { it_->zero_grad(); }
void Engine::begin_step_times() { it_->begin_step_times(); }

Engine::NoSync::NoSync(Engine& engine) : engine_(engine) { engine_.it_->hold_back(1); }
Engine::NoSync::~NoSync() { engine_.it_->hold_back(-1); }

Autocast Engine::autocast() const {
  const auto dtype = engine::autocast_type(it_->config());
  return dtype ? Autocast(it_->device().type(), *dtype) : Autocast();
}

double Engine::get_global_grad_norm() const { return it_->updater().grad_norm(); }
double Engine::get_lr() const { return it_->updater().lr(); }
std::vector<double> Engine::get_lrs() const { return it_->updater().lrs(); }
void Engine::set_lr(double lr) {
  engine::check_number("set_lr()", "lr", lr);
  it_->updater().set_lr(lr);
}
double Engine::loss_scale() const { return it_->updater().loss_scale(); }
void Engine::wait_for_parameters() { it_->wait_for_parameters(); }
int64_t Engine::global_steps() const { return it_->global_steps(); }
int64_t Engine::skipped_steps() const { return it_->updater().num_skipped(); }
int64_t Engine::micro_steps() const { return it_->micro_steps(); }
at::Device Engine::device() const { return it_->device(); }
const World& Engine::world() const { return it_->world(); }
const engine::ModelTensors& Engine::model() const { return it_->model(); }
const config::Resolved& Engine::config() const { return it_->config(); }
const plan::Plan& Engine::plan() const { return it_->plan(); }
EngineTotals Engine::totals() const { return it_->totals(); }
EngineStateBytes Engine::state_bytes() const { return it_->state_bytes(); }
engine::NamedTensors Engine::optimizer_state() { return it_->optimizer_state(); }
void Engine::set_optimizer_state(const engine::NamedTensors& state) { it_->set_optimizer_state(state); }

SaveReport Engine::save_checkpoint(const std::string& folder, const SaveOptions& options) {
  const Span span({.name = "save", .category = SpanCategory::kDisk});
  return it_->checkpoints().save(folder, options);
}
void Engine::keep_copy(const SaveOptions& options) { it_->keep_copy(options); }
void Engine::open_checkpoints(const std::string& folder) { it_->checkpoints().open(folder); }
void Engine::wait_for_checkpoint() { it_->wait_for_saves(); }
CheckpointTotals Engine::checkpoint_totals() const { return it_->save_totals(); }
std::optional<LoadedCheckpoint> Engine::load_checkpoint(const std::string& folder,
                                                        const LoadCheckpointOptions& options) {
  return it_->load(folder, options);
}

at::Tensor Engine::full_param(const at::Tensor& parameter) { return it_->full_param(parameter); }
at::Tensor Engine::full_grad(const at::Tensor& parameter) { return it_->full_grad(parameter); }
at::Tensor Engine::full_state(const at::Tensor& parameter, const std::string& kind) {
  return it_->full_state(parameter, kind);
}
void Engine::set_full_param(const at::Tensor& parameter, const at::Tensor& value) {
  it_->set_full_param(parameter, value);
}
void Engine::set_full_grad(const at::Tensor& parameter, const at::Tensor& value) {
  it_->set_full_grad(parameter, value);
}
void Engine::set_full_state(const at::Tensor& parameter, const std::string& kind, const at::Tensor& value) {
  it_->set_full_state(parameter, kind, value);
}

void Engine::save_weights(const std::string& path, const SaveModelOptions& options) {
  it_->save_weights(Env::posix(), path, options);
}
bool Engine::save_16bit_model(const std::string& folder, const SaveModelOptions& options) {
  return it_->save_16bit_model(Env::posix(), folder, options);
}

std::optional<EngineTuning> Engine::tuning() const { return it_->tuning(); }

config::Resolved read_engine_config(const std::string& path, int world_size) {
  auto reading = config::read_config(config::load_document(Env::posix(), path),
                                     {{"world", config::int_fact(world_size, "the number of ranks")}});
  config::require_usable(reading);
  if (comm::read_rank_environment().rank == 0) {
    engine::say_idle_settings(reading);
    if (reading.resolved.dump_state) {
      for (const std::string& line : config::describe_settings(reading)) log_info(line);
    }
  }
  return std::move(reading.resolved);
}

InitOptions init_options(const config::Resolved& config, c10::DeviceType device) {
  return {.transport = config.weft.transport, .deadline_s = config.weft.deadline_s, .device = device};
}

}  // namespace weft
