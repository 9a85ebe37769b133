#include "weft/engine/run_monitor.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/comm/shm_group.h"
#include "weft/engine/agree.h"
#include "weft/engine/clock_offsets.h"
#include "weft/engine/device_spans.h"
#include "weft/engine/flops_profile.h"
#include "weft/engine/peak_flops.h"
#include "weft/engine/run_facts.h"
#include "weft/engine/settings.h"
#include "weft/monitor/bucket_names.h"
#include "weft/monitor/comms_log.h"
#include "weft/monitor/host_name.h"
#include "weft/monitor/live/live_server.h"
#include "weft/monitor/run_files.h"
#include "weft/monitor/run_report.h"
#include "weft/monitor/span.h"
#include "weft/monitor/write_trouble.h"

namespace weft {
namespace {

constexpr int64_t kGpuEveryNs = 1'000'000'000;
constexpr int64_t kWarmSteps = 2;
constexpr auto kAllMemory = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
// Loss and two wishes, before the numbers of the rank.
constexpr size_t kNumShared = 3 + kNumRankNumbers;

double unix_now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The CUDA runtime is in the process where a device is; nothing here links to it.
std::string pci_bus_id(at::Device device) {
  if (!device.is_cuda()) return "";
  using Function = int (*)(char*, int, int);
  const auto find = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, "cudaDeviceGetPCIBusId"));
  std::array<char, 32> text = {};
  if (find == nullptr || find(text.data(), static_cast<int>(text.size()), device.index()) != 0) return "";
  return text.data();
}

std::vector<std::string> names_of_buckets(const plan::Plan& plan) {
  std::vector<std::vector<std::string>> parameters;
  for (const auto& bucket : plan.layout.gradient_buckets()) {
    parameters.emplace_back();
    for (const auto& place : bucket.places) parameters.back().push_back(plan.table[place.parameter].name);
  }
  return bucket_names(parameters);
}

// Which parameter each begins with: where that changes, so have the buckets.
std::vector<int> starts_of_buckets(const plan::Plan& plan) {
  std::vector<int> out;
  for (const auto& bucket : plan.layout.gradient_buckets())
    out.push_back(bucket.places.empty() ? -1 : bucket.places.front().parameter);
  return out;
}

double peak_of(const Engine& engine) {
  const auto& config = engine.config();
  const double world = engine.world().size;
  if (config.weft.peak_tflops) return *config.weft.peak_tflops * 1e12 * world;
  const auto of_model = config.bf16.enabled ? at::kBFloat16 : config.fp16.enabled ? at::kHalf : at::kFloat;
  return world * engine::measure_peak_flops(engine.device(), engine::autocast_type(config).value_or(of_model));
}

TelemetryOptions telemetry_options(const Engine& engine, const RunMonitorOptions& options,
                                   const std::vector<std::string>& hosts) {
  return {.folder = options.folder,
          .rank = engine.world().rank,
          .hosts = hosts,
          .run_id = engine.world().run_id,
          .trace = options.trace,
          .trace_from = options.trace_from,
          .trace_to = options.trace_to,
          .next_step = engine.global_steps() + 1,
          .steps_per_print = engine.config().steps_per_print,
          .breakdown = engine.config().wall_clock_breakdown || engine.config().flops_profiler.enabled,
          .config = engine.config()};
}

}  // namespace

RunMonitor::RunMonitor(Engine& engine, RunMonitorOptions options)
    : engine_(engine),
      options_(std::move(options)),
      device_(engine.device()),
      clocks_(engine::exchange_texts(*engine.world().group, this_clock_name(), device_)),
      hosts_(told_apart(engine::exchange_texts(*engine.world().group, this_host_name(), device_), clocks_)),
      use_(pci_bus_id(device_)) {
  if (!options_.record) return;
  telemetry_.emplace(Env::posix(), telemetry_options(engine, options_, hosts_));
  if (options_.count_flops_every > 0) peak_flops_per_s_ = peak_of(engine);
  totals_ = engine.totals();
  if (engine::is_profiled(engine.config(), engine.global_steps() + 1)) begin_counting(engine.global_steps() + 1);
  if (is_traced(engine.global_steps() + 1)) read_clocks();
  if (writes_report()) begin_report();
  if (engine.world().rank == 0 && engine.config().weft.dashboard.port) serve_page();
  if (device_.is_cpu()) {
    pace_.emplace();
  } else {
    device_spans_ = std::make_unique<engine::DeviceSpans>(device_);
  }
  engine.begin_step_times();
}

RunMonitor::~RunMonitor() = default;

// A page that cannot be served is no reason not to train.
void RunMonitor::serve_page() {
  const auto& wanted = engine_.config().weft.dashboard;
  try {
    page_ = std::make_unique<LiveServer>(Env::posix(), options_.folder,
                                         LiveServerOptions{.host = wanted.host,
                                                           .port = static_cast<int>(*wanted.port),
                                                           .token = wanted.token.value_or(""),
                                                           .announce = true});
    if (*wanted.port != 0 && page_->port() != *wanted.port)
      log_warn("port ", *wanted.port, " is in use: the live page is on port ", page_->port());
    // Who may read the log is not always who may watch: the token stands in a file of its own.
    log_info("the run can be watched at ", page_->address(),
             page_->token().empty() ? "" : cat(" with the token in ", options_.folder, "/dashboard.json"));
  } catch (const Error& error) {
    log_warn("the run has no live page: ", error.what());
  }
}

void RunMonitor::begin_report() {
  const std::string& folder = options_.folder;
  const std::string path = folder.substr(0, folder.find_last_not_of('/') + 1);
  run_.facts = engine::facts_at_start(engine_);
  run_.facts.name = path.substr(path.rfind('/') + 1);
  run_.facts.peak_flops_per_s = peak_flops_per_s_;
  publish_file(Env::posix(), folder + "/result.json", bytes_of(run_.to_json()));
}

void RunMonitor::write_report() {
  run_.facts.status = "finished";
  run_.facts.parts = summary();
  engine::add_facts_at_end(run_.facts, engine_, run_.num_steps());
  run_.facts.flops_per_step = flops_per_step();
  try {
    publish_file(Env::posix(), options_.folder + "/result.json", bytes_of(run_.to_json()));
    const std::string page = render_report_html(load_run(Env::posix(), options_.folder), {.now_unix_s = unix_now_s()});
    publish_file(Env::posix(), options_.folder + "/report.html", bytes_of(page));
  } catch (const Error& error) {
    tell_write_trouble(options_.folder + "/report.html", error);
  }
}

int64_t RunMonitor::flops_per_step() const { return flops_.total * engine_.world().size; }

StepAgreed RunMonitor::step_done(const StepReport& report) {
  if (counter_) {
    flops_ = counter_->end();
    counter_.reset();
  }
  const RankNumbers mine = measure();
  StepAgreed agreed{.loss = report.loss, .any_stop = report.wants_stop, .any_save = report.wants_save};
  const std::vector<RankNumbers> all = exchange(report, mine, agreed);
  if (!telemetry_) return agreed;
  if (writes_report()) {
    run_.facts.tokens_per_step = report.tokens;
    run_.add_step(static_cast<float>(agreed.loss), std::llround(mine.step_ms * 1e6));
  }
  telemetry_->step_done(metrics_of(report, agreed, mine), all);
  if (engine::is_profiled(engine_.config(), engine_.global_steps()) && engine_.world().rank == 0) show_profile(mine);
  print_memory(mine);
  if (auto now = starts_of_buckets(engine_.plan()); now != bucket_starts_) {
    bucket_starts_ = std::move(now);
    telemetry_->set_bucket_names(names_of_buckets(engine_.plan()));
  }
  count_flops();
  // Before the first traced step and after the last: between the two, clocks drift.
  const int64_t step = engine_.global_steps();
  if (is_traced(step) != is_traced(step + 1)) read_clocks();
  return agreed;
}

void RunMonitor::read_clocks() {
  const auto readings = engine::read_clocks(*engine_.world().group, clocks_, device_);
  offsets_ns_.clear();
  for (const ClockReading& one : readings) offsets_ns_.push_back(one.offset_ns);
  const bool has_one_clock = std::ranges::all_of(clocks_, [&](const std::string& name) { return name == clocks_[0]; });
  if (!has_one_clock) telemetry_->add_clock(readings[static_cast<size_t>(engine_.world().rank)]);
}

std::optional<StepSummary> RunMonitor::summary() const {
  return telemetry_ ? std::optional(telemetry_->summary()) : std::nullopt;
}

std::vector<SlowRank> RunMonitor::slow_ranks() const {
  return telemetry_ ? telemetry_->slow_ranks() : std::vector<SlowRank>();
}

void RunMonitor::show_profile(const RankNumbers& mine) const {
  engine::show_flops(flops_, engine_.config().flops_profiler,
                     {.folder = options_.folder,
                      .step = engine_.global_steps(),
                      .step_ms = mine.step_ms,
                      .peak_flops_per_s = peak_flops_per_s_ / engine_.world().size,
                      .on_cpu = device_.is_cpu()});
}

// memory_breakdown: beside the lines of steps_per_print.
void RunMonitor::print_memory(const RankNumbers& mine) const {
  const auto& config = engine_.config();
  const int64_t step = engine_.global_steps();
  const bool is_due = config.memory_breakdown && config.steps_per_print && step % *config.steps_per_print == 0;
  if (!is_due || engine_.world().rank != 0) return;
  const auto text = [](auto bytes) { return format_bytes(static_cast<uint64_t>(bytes)); };
  std::string line = cat("step ", step, ": memory ", text(mine.rss_bytes), " resident");
  if (!device_.is_cpu()) {
    line += cat("; on the device ", text(mine.device_bytes), " allocated, ", text(mine.device_reserved_bytes),
                " reserved; at most ", text(mine.peak_device_bytes), " and ", text(mine.peak_device_reserved_bytes));
  }
  log_info(line);
}

// The next step, from its forward on.
void RunMonitor::count_flops() {
  const int64_t every = options_.count_flops_every;
  const int64_t step = engine_.global_steps();
  const bool is_due = every > 0 && step % every == kWarmSteps % every;
  if (is_due || engine::is_profiled(engine_.config(), step + 1)) begin_counting(step + 1);
}

// Only the step that is profiled pays for its modules.
void RunMonitor::begin_counting(int64_t step) {
  counter_.emplace(engine::is_profiled(engine_.config(), step) ? &engine_.model() : nullptr);
}

// Of the host: its own, what it made for all of them, and its share of the files that all map, which are libraries.
void RunMonitor::add_memory(RankNumbers& out) const {
  const ProcessMemory memory = process_memory();
  const auto num_here = std::ranges::count(hosts_, hosts_[static_cast<size_t>(engine_.world().rank)]);
  const int64_t own_bytes = std::max<int64_t>(0, memory.peak_bytes - memory.shared_bytes - memory.file_bytes);
  out.rss_bytes = static_cast<double>(memory.resident_bytes);
  out.peak_rss_bytes = static_cast<double>(memory.peak_bytes);
  if (memory.file_bytes == 0) return;  // a kernel that does not tell the parts
  const int64_t file_bytes = memory.file_bytes / num_here;
  out.host_bytes = static_cast<double>(own_bytes + comm::shared_bytes_made() + file_bytes);
}

RankNumbers RunMonitor::measure() {
  if (!telemetry_) return {};
  if (device_spans_) device_spans_->resolve();
  RankNumbers out = numbers_of(telemetry_->collect(engine_.global_steps()));
  add_memory(out);
  out.cpu_percent = use_.cpu_percent().value_or(0);
  if (pace_) {
    out.pace_us = pace_->measure_us();
    return out;
  }
  const auto stats = at::accelerator::getDeviceStats(device_.index());
  out.device_bytes = static_cast<double>(stats.allocated_bytes[kAllMemory].current);
  out.device_reserved_bytes = static_cast<double>(stats.reserved_bytes[kAllMemory].current);
  out.peak_device_bytes = static_cast<double>(stats.allocated_bytes[kAllMemory].peak);
  out.peak_device_reserved_bytes = static_cast<double>(stats.reserved_bytes[kAllMemory].peak);
  if (now_ns() - looked_ns_ > kGpuEveryNs) {
    looked_ns_ = now_ns();
    gpu_percent_ = use_.gpu_percent().value_or(-1);
  }
  out.gpu_percent = gpu_percent_;
  return out;
}

std::vector<RankNumbers> RunMonitor::exchange(const StepReport& report, const RankNumbers& mine, StepAgreed& agreed) {
  const int world = engine_.world().size;
  if (world == 1) return {mine};
  const Span span({.name = "wait for ranks", .category = SpanCategory::kExposedWait});
  const at::Tensor own = at::empty({kNumShared}, at::kDouble);
  const std::span<double, kNumShared> values(own.mutable_data_ptr<double>(), kNumShared);
  values[0] = report.loss;
  values[1] = report.wants_stop ? 1 : 0;
  values[2] = report.wants_save ? 1 : 0;
  mine.pack(values.subspan<3>());
  const at::Tensor all = at::empty({world * static_cast<int64_t>(kNumShared)}, own.options().device(device_));
  engine_.world().group->all_gather(own.to(device_), all);
  const at::Tensor here = all.cpu();
  std::vector<RankNumbers> out;
  float sum = 0;  // in the order of ranks and in fp32, whatever carried it
  for (int rank = 0; rank < world; ++rank) {
    const std::span<const double, kNumShared> its(here.const_data_ptr<double>() + rank * kNumShared, kNumShared);
    sum += static_cast<float>(its[0]);
    agreed.any_stop |= its[1] > 0;
    agreed.any_save |= its[2] > 0;
    out.push_back(RankNumbers::unpack(its.subspan<3>()));
  }
  agreed.loss = sum / static_cast<float>(world);
  return out;
}

StepMetrics RunMonitor::metrics_of(const StepReport& report, const StepAgreed& agreed, const RankNumbers& mine) {
  const auto& config = engine_.config();
  const int64_t step = engine_.global_steps();
  StepMetrics out{.step = step,
                  .samples = static_cast<double>(step * config.train_batch_size),
                  .loss = agreed.loss,
                  .lr = engine_.get_lr(),
                  .rss_bytes = mine.rss_bytes,
                  .cpu_percent = mine.cpu_percent,
                  .unix_s = unix_now_s()};
  const bool scales = engine::scales_losses(config);
  if (scales) out.loss_scale = engine_.loss_scale();
  if (scales || config.bf16.enabled || engine_.skipped_steps() > 0)
    out.skipped_steps = static_cast<double>(engine_.skipped_steps());
  // Known where it was needed. On a device it is a number that has come already: the loss of this step was waited for.
  if (scales || config.gradient_clipping > 0) out.grad_norm = engine_.get_global_grad_norm();
  if (!device_.is_cpu()) {
    out.device_bytes = mine.device_bytes;
    out.device_reserved_bytes = mine.device_reserved_bytes;
    if (mine.device_reserved_bytes > 0) out.device_fragmentation = 1 - mine.device_bytes / mine.device_reserved_bytes;
    if (mine.gpu_percent >= 0) out.gpu_percent = mine.gpu_percent;
  }
  add_sent(out);
  if (mine.step_ms <= 0) return out;
  const double step_s = mine.step_ms * 1e-3;
  out.step_ms = mine.step_ms;
  out.samples_per_s = static_cast<double>(config.train_batch_size) / step_s;
  if (report.tokens > 0) out.tokens_per_s = static_cast<double>(report.tokens) / step_s;
  if (flops_.total == 0) return out;
  out.flops_per_s = static_cast<double>(flops_per_step()) / step_s;
  if (peak_flops_per_s_ > 0) out.mfu = *out.flops_per_s / peak_flops_per_s_;
  return out;
}

void RunMonitor::add_sent(StepMetrics& out) {
  const EngineTotals now = engine_.totals(), before = std::exchange(totals_, now);
  const int64_t sent = now.sent_bytes - before.sent_bytes, gathered = now.gathered_bytes - before.gathered_bytes;
  out.sent_bytes = static_cast<double>(sent);
  out.sent_reduce_bytes = static_cast<double>(sent - gathered);
  out.sent_gather_bytes = static_cast<double>(gathered);
  out.sent_loss_bytes = static_cast<double>(kNumShared * sizeof(double)) * (engine_.world().size - 1);
}

std::optional<std::string> RunMonitor::close() {
  counter_.reset();
  if (!telemetry_) return std::nullopt;
  read_clocks();
  if (device_spans_) {  // what came after the last step was measured
    at::accelerator::synchronizeDevice(device_.index());
    device_spans_->resolve();
  }
  telemetry_->close();
  auto& group = *engine_.world().group;
  const auto texts = engine::exchange_texts(group, telemetry_->late_steps().text(), device_);
  if (engine_.world().rank != 0) return std::nullopt;
  if (engine_.config().comms_logger.enabled) {
    for (const std::string& line : comms_table(comms_log().rows())) log_info(line);
  }
  write_timeline(timeline_json(texts, offsets_ns_));
  if (writes_report()) write_report();
  return options_.trace ? join_traces() : std::nullopt;
}

// What follows is about the run, not of it: none of it ends a training that is done.
void RunMonitor::write_timeline(const std::string& text) const {
  if (text.empty()) return;
  const std::string path = options_.folder + "/timeline.json";
  try {
    write_file(Env::posix(), path, bytes_of(text));
  } catch (const Error& error) {
    tell_write_trouble(path, error);
  }
}

std::optional<std::string> RunMonitor::join_traces() {
  try {
    return joined_traces();
  } catch (const IoError& error) {
    tell_write_trouble(options_.folder + "/trace.json", error);
  } catch (const Error& error) {  // a disk that was full may have left one without its start
    log_warn("the timelines of the ranks are not joined: ", error.text().title, ", ", error.text().where);
  }
  return std::nullopt;
}

std::optional<std::string> RunMonitor::joined_traces() {
  const auto joined = telemetry_->join_traces();
  if (!joined)
    log_info("the timeline of each rank is on its host, in ", options_.folder,
             "/trace. Copied into that folder here, weft report ", options_.folder, " joins them");
  return joined;
}

}  // namespace weft
