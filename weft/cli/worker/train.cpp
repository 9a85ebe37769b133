#include "weft/cli/worker/train.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <cstdio>
#include <optional>
#include <thread>

#include "examples/gpt/gpt.h"
#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/units.h"
#include "weft/cli/front/run_output.h"
#include "weft/cli/worker/run_folder.h"
#include "weft/cli/worker/stop_signal.h"
#include "weft/cli/worker/train_data.h"
#include "weft/cli/worker/train_state.h"
#include "weft/cli/worker/updater.h"
#include "weft/monitor/progress.h"
#include "weft/monitor/run_record.h"

namespace weft::cli {
namespace {

constexpr int64_t kHeldOutBatches = 20;

checkpoint::NamedTensors parameters_of(torch::nn::Module& model) {
  checkpoint::NamedTensors out;
  for (auto& entry : model.named_parameters()) out.emplace_back(entry.key(), entry.value());
  return out;
}

at::Device device_of(const TrainOptions& o) {
  if (o.device == "cpu") return at::kCPU;
  const auto count = at::accelerator::deviceCount();
  if (count > 0) return {at::kCUDA, 0};
  throw Error(ErrorKind::kEnvironment, {.title = "no CUDA device was found",
                                        .what = "torch was built with CUDA but sees no GPU",
                                        .where = "",
                                        .fix = "check nvidia-smi and CUDA_VISIBLE_DEVICES, or leave --device out"});
}

int64_t peak_device_bytes(at::Device device) {
  const auto stats = at::accelerator::getDeviceStats(device.index());
  return stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
}

// One run from start to end. Built in parts, so that each part is short; used once.
class Training {
 public:
  explicit Training(const TrainOptions& options);
  int run();

 private:
  void restore();
  void begin_record();
  bool done(int64_t step) const;
  float one_step(int64_t step);
  at::Tensor batch(const data::BatchSource& source, int64_t step);
  at::Tensor loss_of(const at::Tensor& rows);
  double rate_at(int64_t step) const;
  void save(int64_t step);
  void show_progress(Progress& progress, int64_t step, float loss);
  void train_steps();
  std::optional<double> held_out_loss();
  void finish(const std::string& status);
  void finish_failed();
  checkpoint::NamedTensors full_state();

  TrainOptions o_;
  at::Device device_;
  std::unique_ptr<TrainData> data_;
  examples::Gpt model_;
  int64_t threads_;
  std::unique_ptr<Updater> updater_;
  std::optional<TrainStateStore> store_;
  std::optional<RunFolder> folder_;  // there once the constructor is through
  RunRecord record_;
  StopSignal stop_;
  Stopwatch watch_;
  at::Tensor staging_;  // [rows, seq + 1] on the CPU, drawn into each step
  int64_t first_step_ = 0;
  int64_t last_saved_step_ = -1;
};

examples::GptShape shape_of(const TrainOptions& o) {
  return {.vocab = o.vocab, .seq = o.seq, .dim = o.dim, .layers = o.layers, .heads = o.heads, .tied = o.tied};
}

// What a resumed run must share with the run that saved, beside the shapes, which the tensors themselves check.
std::map<std::string, std::string> identity_of(const TrainOptions& o) {
  return {{"seed", cat(o.seed)},   {"data", o.data},  {"micro-batch", cat(o.micro_batch)}, {"seq", cat(o.seq)},
          {"heads", cat(o.heads)}, {"lr", cat(o.lr)}, {"warmup", cat(o.warmup_steps)}};
}

// What may differ, at the price of other bits.
std::map<std::string, std::string> machine_of(const TrainOptions& o, int64_t threads) {
  return {{"device", o.device}, {"threads", cat(threads)}};
}

// A result that cannot be written is better known now than after an hour.
void check_folder_of(const std::string& path, const std::string& flag) {
  if (path.empty() || path == "-" || Env::posix().stat(folder_of(path))) return;
  throw Error(ErrorKind::kInput, {.title = cat("the folder for ", flag, " does not exist"),
                                  .what = "",
                                  .where = folder_of(path),
                                  .fix = cat("mkdir -p ", folder_of(path))});
}

examples::Gpt seeded_model(const TrainOptions& o) {
  at::manual_seed(static_cast<uint64_t>(o.seed));
  return examples::Gpt(shape_of(o));
}

int64_t use_threads(const TrainOptions& o) {
  const auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const int64_t threads = o.threads > 0 ? o.threads : cores;
  at::set_num_threads(static_cast<int>(threads));
  return threads;
}

Training::Training(const TrainOptions& options)
    : o_(options),
      device_(device_of(options)),
      data_(open_train_data(options)),
      model_(seeded_model(options)),
      threads_(use_threads(options)),
      staging_(at::empty({options.micro_batch, options.seq + 1}, at::kLong)) {
  check_folder_of(o_.json_path, "--json");
  check_folder_of(o_.export_path, "--export");
  model_.to(device_);
  if (!o_.init_path.empty()) {
    const auto file = checkpoint::read_safetensors(Env::posix(), o_.init_path);
    load_into(file, parameters_of(model_), o_.init_path);
  }
  updater_ = make_fused_adamw(parameters_of(model_));
  if (!o_.save_folder.empty()) store_.emplace(Env::posix(), o_.save_folder, identity_of(o_), machine_of(o_, threads_));
  if (o_.resume) restore();
  folder_.emplace(Env::posix(), o_.runs_folder, o_.name);  // last: what is refused above leaves no folder behind
  begin_record();
}

void Training::begin_record() {
  const StateBytes bytes = updater_->state_bytes();
  record_.facts = {.name = folder_->path().substr(folder_->path().rfind('/') + 1),
                   .device = o_.device,
                   .data = data_->corpus ? data_->corpus->name() : o_.data,
                   .params = model_.shape().num_params(),
                   .threads = threads_,
                   .seed = o_.seed,
                   .tokens_per_step = o_.micro_batch * o_.seq,
                   .first_step = first_step_,
                   .params_bytes = bytes.params,
                   .grads_bytes = bytes.grads,
                   .optimizer_bytes = bytes.optimizer};
  if (data_->corpus) record_.facts.unigram_entropy = data_->corpus->unigram_entropy();
  folder_->write("result.json", record_.to_json());
}

checkpoint::NamedTensors Training::full_state() {
  auto all = parameters_of(model_);
  for (auto& entry : updater_->state()) all.push_back(std::move(entry));
  return all;
}

void Training::restore() {
  const auto step = store_->restore(full_state());
  if (!step) {
    log_info("nothing saved in ", o_.save_folder, " yet: starting from step 0");
    return;
  }
  first_step_ = last_saved_step_ = *step;
  log_info("resumed from step ", *step, " in ", o_.save_folder);
}

void Training::save(int64_t step) {
  if (!store_ || last_saved_step_ == step) return;
  store_->save(step, full_state());
  last_saved_step_ = step;
}

at::Tensor Training::batch(const data::BatchSource& source, int64_t step) {
  constexpr int64_t kMicroBatch = 0;  // one rank, no accumulation: each step is one micro-batch
  source.draw(step, kMicroBatch, {staging_.mutable_data_ptr<int64_t>(), static_cast<size_t>(staging_.numel())});
  return staging_.to(device_);
}

at::Tensor Training::loss_of(const at::Tensor& rows) {
  return model_.loss(rows.slice(1, 0, o_.seq), rows.slice(1, 1, o_.seq + 1));
}

double Training::rate_at(int64_t step) const {
  if (step >= o_.warmup_steps) return o_.lr;
  return o_.lr * static_cast<double>(step + 1) / static_cast<double>(o_.warmup_steps);
}

float Training::one_step(int64_t step) {
  const auto loss = loss_of(batch(*data_->train, step));
  updater_->backward(loss);
  updater_->step(rate_at(step));
  return loss.item<float>();
}

bool Training::done(int64_t step) const {
  if (o_.duration.count() > 0) return watch_.elapsed_ns() >= o_.duration.count();
  return step >= o_.steps;
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
  Progress progress({.title = "train", .terminal = detect_terminal(STDERR_FILENO)});
  watch_.restart();
  for (int64_t step = first_step_; !done(step) && !stop_.asked(); ++step) {
    const Stopwatch step_watch;
    const float loss = one_step(step);
    record_.add_step(loss, step_watch.elapsed_ns());
    show_progress(progress, step, loss);
    if (!std::isfinite(loss)) {
      throw Error(ErrorKind::kEnvironment,
                  {.title = "the loss is no longer a number",
                   .what = cat("step ", step + 1, " of this run, learning rate ", rate_at(step)),
                   .where = folder_->path(),
                   .fix = "a smaller --lr, or a longer --warmup"});
    }
    if (o_.save_every > 0 && (step + 1) % o_.save_every == 0) save(step + 1);
  }
}

std::optional<double> Training::held_out_loss() {
  if (!data_->held_out || record_.num_steps() == 0) return std::nullopt;
  const at::NoGradGuard no_grad;
  double sum = 0;
  for (int64_t i = 0; i < kHeldOutBatches; ++i) sum += loss_of(batch(*data_->held_out, i)).item<double>();
  return sum / kHeldOutBatches;
}

// Everything a run leaves behind, for a run that failed as well: the curve up to the fault is what people want to see.
void Training::finish(const std::string& status) {
  record_.facts.status = status;
  record_.facts.peak_rss_bytes = peak_rss_bytes();
  if (device_.is_cuda()) record_.facts.peak_device_bytes = peak_device_bytes(device_);
  folder_->write("report.html", report_of(record_, o_));
  folder_->write("result.json", record_.to_json());
  if (!o_.json_path.empty()) write_json(record_, o_.json_path);
}

// The failure that led here is what the user must hear about; one more on the way out only goes to the log.
void Training::finish_failed() {
  try {
    finish("failed");
  } catch (const Error& error) {
    log_error(error.what());
  }
}

int Training::run() {
  try {
    train_steps();
    record_.facts.held_out_loss = held_out_loss();
    save(first_step_ + record_.num_steps());
    if (!o_.export_path.empty()) checkpoint::write_safetensors(Env::posix(), o_.export_path, parameters_of(model_));
  } catch (...) {
    finish_failed();
    throw;
  }
  finish(stop_.asked() ? "stopped" : "finished");
  print_closing_table(record_, folder_->file("report.html"));
  stop_.leave_as_asked();
  return 0;
}

}  // namespace

int train(const TrainOptions& options) { return Training(options).run(); }

}  // namespace weft::cli
