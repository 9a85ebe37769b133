#include "weft/cli/worker/train.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <thread>

#include "examples/gpt/gpt.h"
#include "weft/base/clock.h"
#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/units.h"
#include "weft/cli/front/run_output.h"
#include "weft/cli/front/train_config.h"
#include "weft/cli/front/train_settings.h"
#include "weft/cli/worker/run_folder.h"
#include "weft/cli/worker/stop_signal.h"
#include "weft/cli/worker/train_checkpoints.h"
#include "weft/cli/worker/train_data.h"
#include "weft/engine/agree.h"
#include "weft/engine/engine.h"
#include "weft/engine/gradients_lost.h"
#include "weft/engine/model_loading.h"
#include "weft/engine/run_facts.h"
#include "weft/engine/run_monitor.h"
#include "weft/engine/settings.h"
#include "weft/engine/sharded_init.h"
#include "weft/monitor/progress.h"
#include "weft/monitor/run_record.h"
#include "weft/monitor/span.h"
#include "weft/monitor/write_trouble.h"

namespace weft::cli {
namespace {

constexpr int64_t kHeldOutBatches = 20;

// Several ranks share a GPU where there are fewer of those.
at::Device device_of(const TrainOptions& o, const World& world) {
  if (o.device == "cpu") return at::kCPU;
  const auto count = at::accelerator::deviceCount();
  if (count > 0) return {at::kCUDA, static_cast<at::DeviceIndex>(world.local_rank % count)};
  throw Error(ErrorKind::kEnvironment, {.title = "no CUDA device was found",
                                        .what = "torch was built with CUDA but sees no GPU",
                                        .where = "",
                                        .fix = "check nvidia-smi and CUDA_VISIBLE_DEVICES, or leave --device out"});
}

// One run from start to end. Built in parts, so that each part is short; used once.
class Training {
 public:
  explicit Training(const TrainOptions& options);
  int run();

 private:
  void restore();
  void begin_monitor();
  void begin_record();
  bool done(int64_t step) const;
  float one_step(int64_t step);
  float share(float loss);
  at::Tensor batch(const data::BatchSource& source, int64_t step, int64_t micro_batch);
  at::Tensor loss_of(const at::Tensor& rows);
  at::Tensor forward(const at::Tensor& rows);
  double rate_at(int64_t step) const;
  void save_if_due(int64_t step, float loss);
  void save_last();
  bool wants_save();
  void show_progress(Progress& progress, int64_t step, float loss);
  void train_steps();
  std::optional<double> held_out_loss();
  void finish(const std::string& status);
  void finish_failed();
  bool leave(const std::string& name, const std::function<std::string()>& make) const;
  bool is_touched(const std::string& name) const;
  TrainCheckpointOptions options_of(std::string folder) const;
  void open_checkpoints(std::string folder);
  Error saved_after(const GradientsLost& lost);
  void finish_monitor();
  bool leads() const { return world_.rank == 0; }

  TrainOptions o_;
  const config::Resolved config_;
  const World world_;
  at::Device device_;
  std::unique_ptr<TrainData> data_;
  examples::Gpt model_;
  int64_t threads_;
  std::optional<Engine> engine_;
  std::optional<TrainCheckpoints> checkpoints_, copies_;  // in a folder; and in memory
  std::optional<RunFolder> folder_;                       // of rank 0; there once the constructor is through
  std::string run_folder_;                                // its path, on all ranks
  std::optional<RunMonitor> monitor_;
  RunRecord record_;
  StopSignal stop_;
  Stopwatch watch_;
  at::Tensor staging_;       // [rows, seq + 1] on the CPU, drawn into each step
  bool all_stop_ = false;    // some rank was asked to, or has no time left
  bool all_save_ = false;    // somebody wants a checkpoint of this step
  bool save_stays_ = false;  // the file SAVE could not be taken away
  bool has_report_ = false;
  int64_t first_step_ = 0;
};

// By `weft run --restarts K --resume`.
bool is_started_again() {
  const char* word = std::getenv("WEFT_RESUME");
  return word != nullptr && std::string_view(word) == "1";
}

examples::GptShape shape_of(const TrainOptions& o) {
  return {.vocab = o.vocab, .seq = o.seq, .dim = o.dim, .layers = o.layers, .heads = o.heads, .tied = o.tied};
}

// What a resumed run must share with the run that saved, beside the shapes, which the tensors themselves check.
std::map<std::string, std::string> identity_of(const TrainOptions& o, int64_t micro_batch) {
  return {{"seed", cat(o.seed)},   {"data", o.data},  {"micro-batch", cat(micro_batch)}, {"seq", cat(o.seq)},
          {"heads", cat(o.heads)}, {"lr", cat(o.lr)}, {"warmup", cat(o.warmup_steps)}};
}

// What may differ, at the price of other bits.
std::map<std::string, std::string> machine_of(const TrainOptions& o, int64_t threads, int ranks) {
  return {{"device", o.device}, {"threads", cat(threads)}, {"ranks", cat(ranks)}};
}

// A result that cannot be written is better known now than after an hour.
void check_folder_of(const std::string& path, const std::string& flag) {
  if (path.empty() || path == "-" || Env::posix().stat(folder_of(path))) return;
  throw Error(ErrorKind::kInput, {.title = cat("the folder for ", flag, " does not exist"),
                                  .what = "",
                                  .where = folder_of(path),
                                  .fix = cat("mkdir -p ", folder_of(path))});
}

// In stage 3 no rank has the whole model, from the first layer on.
examples::Gpt seeded_model(const TrainOptions& o, const config::Resolved& config, const World& world) {
  const ShardedInit scope(config, world);
  at::manual_seed(static_cast<uint64_t>(o.seed));
  return examples::Gpt(shape_of(o));
}

int64_t use_threads(const TrainOptions& o, const World& world) {
  const auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const int64_t threads = o.threads > 0 ? o.threads : std::max<int64_t>(1, cores / world.local_size);
  at::set_num_threads(static_cast<int>(threads));
  return threads;
}

Training::Training(const TrainOptions& options)
    : o_(options),
      config_(train_config(options, comm::read_rank_environment().world)),
      world_(init(init_options(config_, options.device == "cpu" ? at::kCPU : at::kCUDA))),
      device_(device_of(options, world_)),
      data_(open_train_data(options, config_.train_micro_batch_size_per_gpu)),
      model_(seeded_model(options, config_, world_)),
      threads_(use_threads(options, world_)),
      staging_(at::empty({config_.train_micro_batch_size_per_gpu, options.seq + 1}, at::kLong)) {
  if (world_.size > 1) set_log_rank(world_.rank);
  check_folder_of(o_.json_path, "--json");
  check_folder_of(o_.export_path, "--export");
  if (!device_.is_cpu()) model_.to(device_);
  if (!o_.init_path.empty()) load_weights(model_, o_.init_path);
  engine_.emplace(engine::tensors_of(model_), config_, world_);
  if (!o_.save_folder.empty()) {
    open_checkpoints(o_.save_folder);
    checkpoints_->open();
  }
  if (config_.weft.buddy) copies_.emplace(*engine_, options_of(o_.save_folder));
  if (o_.resume || ((checkpoints_ || copies_) && is_started_again())) restore();
  // Last: what is refused above leaves no folder behind.
  if (leads()) folder_.emplace(Env::posix(), o_.runs_folder, o_.name);
  begin_monitor();
  begin_record();
}

TrainCheckpointOptions Training::options_of(std::string folder) const {
  return {.folder = std::move(folder),
          .identity = identity_of(o_, config_.train_micro_batch_size_per_gpu),
          .machine = machine_of(o_, threads_, world_.size),
          .keep_last = config_.weft.keep_saves.value_or(o_.keep_last),
          .keep_every = o_.keep_every,
          .keep_best = o_.keep_best};
}

void Training::open_checkpoints(std::string folder) { checkpoints_.emplace(*engine_, options_of(std::move(folder))); }

void Training::begin_monitor() {
  run_folder_ = engine::exchange_texts(*world_.group, leads() ? folder_->path() : "", device_)[0];
  monitor_.emplace(*engine_, RunMonitorOptions{.folder = run_folder_,
                                               .record = !o_.no_metrics,
                                               .report = false,
                                               .trace = o_.trace,
                                               .trace_from = o_.trace_from,
                                               .trace_to = o_.trace_to});
}

void Training::begin_record() {
  RunFacts& facts = record_.facts;
  facts = engine::facts_at_start(*engine_);
  if (leads()) facts.name = folder_->path().substr(folder_->path().rfind('/') + 1);
  facts.data = data_->corpus ? data_->corpus->name() : o_.data;
  facts.params = model_.shape().num_params();
  facts.seed = o_.seed;
  facts.tokens_per_step = config_.train_batch_size * o_.seq;
  facts.first_step = first_step_;
  if (data_->corpus) facts.unigram_entropy = data_->corpus->unigram_entropy();
  facts.peak_flops_per_s = monitor_->peak_flops_per_s();
  if (!leads()) return;
  folder_->write("result.json", record_.to_json());
  const config::Reading reading = train_reading(o_, world_.size);
  folder_->write("settings.json", settings_json(reading));
  engine::say_idle_settings(reading);
  if (config_.weft.save_every_steps && !checkpoints_)
    log_warn("\"save_every_steps\" has no effect without --save: there is no folder to save in");
  if (!config_.dump_state) return;
  for (const std::string& line : config::describe_settings(reading)) log_info(line);
}

void Training::restore() {
  const auto loaded = (checkpoints_ ? checkpoints_ : copies_)->restore();
  first_step_ = loaded ? loaded->step : 0;
  if (!leads()) return;
  if (!loaded) {
    log_info("nothing saved in ", o_.save_folder.empty() ? "memory" : o_.save_folder, " yet: starting from step 0");
  } else if (loaded->is_copy) {
    log_info("resumed from the copy of step ", first_step_, " in memory; no checkpoint was read");
  } else {
    log_info("resumed from step ", first_step_, " in ", o_.save_folder);
  }
}

// Each N steps, and where somebody said so: touch SAVE in the run's folder. Without --save that goes where lost runs go.
void Training::save_if_due(int64_t step, float loss) {
  const int64_t every = config_.weft.save_every_steps.value_or(o_.save_every);
  const bool is_due = checkpoints_ && every > 0 && step % every == 0;
  if (!is_due && !all_save_) return;
  if (!checkpoints_) open_checkpoints(cat(run_folder_, "/state"));
  checkpoints_->save(step, loss);
}

void Training::save_last() {
  if (!checkpoints_) return;
  const auto& losses = record_.losses();
  checkpoints_->save_and_wait(first_step_ + record_.num_steps(), losses.empty() ? NAN : losses.back());
}

// Taken away, so that one touch is one save.
bool Training::wants_save() {
  if (!is_touched("SAVE")) return false;
  try {
    Env::posix().remove_file(folder_->file("SAVE"));
  } catch (const Error& error) {
    tell_write_trouble(folder_->file("SAVE"), error);
    return !std::exchange(save_stays_, true);
  }
  return true;
}

// A folder that cannot be looked into holds no wishes.
bool Training::is_touched(const std::string& name) const {
  if (!leads()) return false;
  try {
    return Env::posix().stat(folder_->file(name)).has_value();
  } catch (const Error&) {
    return false;
  }
}

at::Tensor Training::batch(const data::BatchSource& source, int64_t step, int64_t micro_batch) {
  const Span span({.name = "batch", .category = SpanCategory::kData});
  source.draw(step, micro_batch, {staging_.mutable_data_ptr<int64_t>(), static_cast<size_t>(staging_.numel())});
  return staging_.to(device_);
}

at::Tensor Training::forward(const at::Tensor& rows) {
  const Span span({.name = "forward", .category = SpanCategory::kForward});
  return loss_of(rows);
}

at::Tensor Training::loss_of(const at::Tensor& rows) {
  const Autocast region = engine_->autocast();
  return model_.loss(rows.slice(1, 0, o_.seq), rows.slice(1, 1, o_.seq + 1));
}

double Training::rate_at(int64_t step) const {
  if (step >= o_.warmup_steps) return o_.lr;
  return o_.lr * static_cast<double>(step + 1) / static_cast<double>(o_.warmup_steps);
}

// The global batch is the same for any number of ranks: micro-batch m of rank r is number m * world + r.
float Training::one_step(int64_t step) {
  float sum = 0;
  for (int64_t m = 0; m < config_.gradient_accumulation_steps; ++m) {
    const auto loss = forward(batch(*data_->train, step, m * world_.size + world_.rank));
    engine_->backward(loss);
    if (o_.config_path.empty()) engine_->set_lr(rate_at(step));
    engine_->step();
    sum += loss.item<float>();
  }
  return share(sum / static_cast<float>(config_.gradient_accumulation_steps));
}

// The mean over ranks; and whether one of them wants to stop or to save, so that all do after the same step.
float Training::share(float loss) {
  const bool out_of_time = o_.duration.count() > 0 && watch_.elapsed_ns() >= o_.duration.count();
  const StepAgreed agreed = monitor_->step_done({.loss = loss,
                                                 .tokens = record_.facts.tokens_per_step,
                                                 .wants_stop = stop_.asked() || out_of_time || is_touched("STOP"),
                                                 .wants_save = wants_save()});
  all_stop_ = agreed.any_stop;
  all_save_ = agreed.any_save;
  return static_cast<float>(agreed.loss);
}

bool Training::done(int64_t step) const {
  if (all_stop_) return true;
  return o_.duration.count() == 0 && step >= o_.steps;
}

void Training::show_progress(Progress& progress, int64_t step, float loss) {
  const bool timed = o_.duration.count() > 0;
  const double elapsed_s = watch_.elapsed_s();
  const int64_t ran = step + 1 - first_step_;
  const double fraction = timed ? std::min(1.0, elapsed_s / (static_cast<double>(o_.duration.count()) * 1e-9))
                                : static_cast<double>(ran) / static_cast<double>(o_.steps - first_step_);
  progress.update({.step = step + 1,
                   .total_steps = o_.steps,
                   .fraction = fraction,
                   .loss = loss,
                   .tokens_per_s = static_cast<double>(ran * record_.facts.tokens_per_step) / elapsed_s,
                   .eta_s = elapsed_s / fraction - elapsed_s});
}

void Training::train_steps() {
  std::optional<Progress> progress;
  if (leads()) progress.emplace(ProgressOptions{.title = "train", .terminal = detect_terminal(STDERR_FILENO)});
  watch_.restart();
  for (int64_t step = first_step_; !done(step); ++step) {
    const Stopwatch step_watch;
    const double loss_scale = engine_->loss_scale();
    const bool scales = engine::scales_losses(config_);
    const int64_t skipped_before = scales ? engine_->skipped_steps() : 0;
    const float loss = one_step(step);
    record_.add_step(loss, step_watch.elapsed_ns());
    if (scales) record_.add_scale(loss_scale, engine_->skipped_steps() > skipped_before);
    if (progress) show_progress(*progress, step, loss);
    if (!std::isfinite(loss)) {
      throw Error(ErrorKind::kEnvironment,
                  {.title = "the loss is no longer a number",
                   .what = cat("step ", step + 1, " of this run, learning rate ", engine_->get_lr()),
                   .where = leads() ? folder_->path() : cat("rank ", world_.rank),
                   .fix = "a smaller --lr, or a longer --warmup"});
    }
    save_if_due(step + 1, loss);
    if (copies_) copies_->keep_copy(loss);
  }
}

// In stage 3 on all ranks: they may have to gather parameters together.
std::optional<double> Training::held_out_loss() {
  if (!data_->held_out || record_.num_steps() == 0) return std::nullopt;
  if (!leads() && config_.zero_optimization.stage < 3) return std::nullopt;
  const at::NoGradGuard no_grad;
  double sum = 0;
  for (int64_t i = 0; i < kHeldOutBatches; ++i) sum += loss_of(batch(*data_->held_out, i, 0)).item<double>();
  return sum / kHeldOutBatches;
}

// Everything a run leaves behind, for a run that failed as well: the curve up to the fault is what people want to see.
void Training::finish(const std::string& status) {
  record_.facts.status = status;
  record_.facts.parts = monitor_->summary();
  engine::add_facts_at_end(record_.facts, *engine_, record_.num_steps());
  record_.facts.flops_per_step = monitor_->flops_per_step();
  if (!leads()) return;
  leave("result.json", [&] { return record_.to_json(); });
  has_report_ = leave("report.html", [&] { return report_of(folder_->path()); });
  if (!o_.json_path.empty()) write_json(record_, o_.json_path);
}

// What took hours must not fail because a page about it cannot be written.
bool Training::leave(const std::string& name, const std::function<std::string()>& make) const {
  try {
    folder_->write(name, make());
    return true;
  } catch (const Error& error) {
    tell_write_trouble(folder_->file(name), error);
    return false;
  }
}

void Training::finish_monitor() {
  // No forward follows the last step that would end its gathers, and saving takes slices as they are. (In stage 3 nothing is under way.)
  if (config_.zero_optimization.stage < 3) engine_->wait_for_parameters();
  const auto trace = monitor_->close();
  if (trace) log_info("timeline of all ranks: ", *trace, " (ui.perfetto.dev or chrome://tracing)");
}

// The failure that led here is what the user must hear about; one more on the way out only goes to the log.
void Training::finish_failed() {
  try {
    finish("failed");
  } catch (const Error& error) {
    log_error(error.what());
  }
}

// Weights and state are those of the last good update, on all ranks: what took hours to get there is kept, and the error says where.
Error Training::saved_after(const GradientsLost& lost) {
  const int64_t step = first_step_ + record_.num_steps();
  try {
    if (!checkpoints_) open_checkpoints(cat(run_folder_, "/state"));
    save_last();
  } catch (const Error& error) {
    log_error(error.what());
    return lost;
  }
  ErrorText text = lost.text();
  const std::string& folder = checkpoints_->folder();
  text.what += cat("; the state after step ", step, " is saved in ", folder);
  text.fix += cat(". To go on from there: change the config, then the same command with --save ", folder, " --resume");
  return {lost.kind(), std::move(text)};
}

int Training::run() {
  try {
    train_steps();
    record_.facts.held_out_loss = held_out_loss();
    save_last();
    if (copies_) engine_->wait_for_checkpoint();  // the last copy takes all ranks
    if (!o_.export_path.empty())
      engine_->save_weights(o_.export_path, {.max_shard_bytes = static_cast<int64_t>(o_.export_max_bytes)});
  } catch (const GradientsLost& lost) {
    const Error error = saved_after(lost);
    finish_failed();
    world_.group->barrier();  // the first rank that ends has the others ended too, and rank 0 writes for all
    throw Error(error);
  } catch (...) {
    finish_failed();
    throw;
  }
  finish_monitor();
  finish(stop_.asked() ? "stopped" : "finished");
  if (leads()) print_closing_table(record_, has_report_ ? folder_->file("report.html") : "");
  monitor_.reset();  // its page tells those who watch; the signal below would end it without a word
  stop_.leave_as_asked();
  return 0;
}

}  // namespace

int train(const TrainOptions& options) { return Training(options).run(); }

}  // namespace weft::cli
