#include "weft/engine/run_monitor.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/engine/agree.h"
#include "weft/engine/clock_offsets.h"
#include "weft/engine/device_spans.h"
#include "weft/engine/flops_table.h"
#include "weft/engine/peak_flops.h"
#include "weft/monitor/comms_log.h"
#include "weft/monitor/host_name.h"
#include "weft/monitor/live/live_server.h"
#include "weft/monitor/span.h"

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

// "block3" for block3.qkv.weight and block3.out.bias; "block2 to block4" for several.
std::string name_of_bucket(const plan::Plan& plan, const plan::Bucket& bucket) {
  const auto module_of = [&](const auto& place) {
    const std::string& name = plan.table[place.parameter].name;
    return name.substr(0, name.find('.'));
  };
  if (bucket.places.empty()) return "";
  const std::string first = module_of(bucket.places.front()), last = module_of(bucket.places.back());
  return first == last ? first : cat(first, " to ", last);
}

std::vector<std::string> names_of_buckets(const plan::Plan& plan) {
  std::vector<std::string> out;
  for (const auto& bucket : plan.layout.gradient_buckets()) out.push_back(name_of_bucket(plan, bucket));
  return out;
}

double peak_of(const Engine& engine) {
  const auto& config = engine.config();
  const double world = engine.world().size;
  if (config.weft.peak_tflops) return *config.weft.peak_tflops * 1e12 * world;
  const bool is_bf16 = config.bf16.enabled, is_fp16 = config.fp16.enabled;
  return world * engine::measure_peak_flops(engine.device(), is_bf16   ? at::kBFloat16
                                                             : is_fp16 ? at::kHalf
                                                                       : at::kFloat);
}

bool is_profiled(const config::Resolved& config, int64_t step) {
  return config.flops_profiler.enabled && step == std::max<int64_t>(1, config.flops_profiler.profile_step);
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
      hosts_(engine::exchange_texts(*engine.world().group, this_host_name(), device_)),
      use_(pci_bus_id(device_)) {
  if (!options_.record) return;
  telemetry_.emplace(Env::posix(), telemetry_options(engine, options_, hosts_));
  if (options_.count_flops_every > 0) peak_flops_per_s_ = peak_of(engine);
  sent_bytes_ = engine.totals().sent_bytes;
  if (is_profiled(engine.config(), engine.global_steps() + 1)) counter_.emplace();
  if (engine.world().rank == 0 && engine.config().weft.dashboard.port) serve_page();
  if (!device_.is_cpu()) device_spans_ = std::make_unique<engine::DeviceSpans>(device_);
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
    log_info("the run can be watched at ", page_->url());
  } catch (const Error& error) {
    log_warn("the run has no live page: ", error.what());
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
  telemetry_->step_done(metrics_of(report, agreed, mine), all);
  if (is_profiled(engine_.config(), engine_.global_steps()) && engine_.world().rank == 0) show_profile(mine);
  print_memory(mine);
  const auto& layout = engine_.plan().layout;
  if (const int now = static_cast<int>(layout.gradient_buckets().size()); now != num_buckets_) {
    num_buckets_ = now;
    telemetry_->set_bucket_names(names_of_buckets(engine_.plan()));
  }
  count_flops();
  return agreed;
}

std::optional<StepSummary> RunMonitor::summary() const {
  return telemetry_ ? std::optional(telemetry_->summary()) : std::nullopt;
}

std::vector<SlowRank> RunMonitor::slow_ranks() const {
  return telemetry_ ? telemetry_->slow_ranks() : std::vector<SlowRank>();
}

// "flops_profiler": once, of the step it names.
void RunMonitor::show_profile(const RankNumbers& mine) const {
  const auto& profiler = engine_.config().flops_profiler;
  const std::string text = engine::flops_table(flops_, {.step = engine_.global_steps(),
                                                        .step_ms = mine.step_ms,
                                                        .peak_flops_per_s = peak_flops_per_s_ / engine_.world().size,
                                                        .only_total = !profiler.detailed});
  if (!profiler.output_file) return log_info(text);
  try {
    write_file(Env::posix(), *profiler.output_file, bytes_of(text));
    log_info("the FLOPs of step ", engine_.global_steps(), " are in ", *profiler.output_file);
  } catch (const Error& error) {
    log_warn(error.what(), "\n", text);
  }
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
    const auto stats = at::accelerator::getDeviceStats(device_.index());
    line += cat("; on the device ", text(mine.device_bytes), " allocated, ", text(mine.device_reserved_bytes),
                " reserved; at most ", text(stats.allocated_bytes[kAllMemory].peak), " and ",
                text(stats.reserved_bytes[kAllMemory].peak));
  }
  log_info(line);
}

// The next step, from its forward on.
void RunMonitor::count_flops() {
  const int64_t every = options_.count_flops_every;
  const int64_t step = engine_.global_steps();
  const bool is_due = every > 0 && step % every == kWarmSteps % every;
  if (is_due || is_profiled(engine_.config(), step + 1)) counter_.emplace();
}

RankNumbers RunMonitor::measure() {
  if (!telemetry_) return {};
  if (device_spans_) device_spans_->resolve();
  RankNumbers out = numbers_of(telemetry_->collect(engine_.global_steps()));
  out.rss_bytes = static_cast<double>(rss_bytes().value_or(0));
  out.cpu_percent = use_.cpu_percent().value_or(0);
  if (device_.is_cpu()) return out;
  const auto stats = at::accelerator::getDeviceStats(device_.index());
  out.device_bytes = static_cast<double>(stats.allocated_bytes[kAllMemory].current);
  out.device_reserved_bytes = static_cast<double>(stats.reserved_bytes[kAllMemory].current);
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
                  .skipped_steps = config.fp16.enabled ? std::optional<double>(engine_.skipped_steps()) : std::nullopt,
                  .rss_bytes = mine.rss_bytes,
                  .cpu_percent = mine.cpu_percent,
                  .unix_s = unix_now_s()};
  if (config.fp16.enabled) out.loss_scale = engine_.loss_scale();
  // On a device it would have to be waited for.
  if (device_.is_cpu() && config.gradient_clipping > 0) out.grad_norm = engine_.get_global_grad_norm();
  if (!device_.is_cpu()) {
    out.device_bytes = mine.device_bytes;
    out.device_reserved_bytes = mine.device_reserved_bytes;
    if (mine.gpu_percent >= 0) out.gpu_percent = mine.gpu_percent;
  }
  const int64_t sent = engine_.totals().sent_bytes;
  out.sent_bytes = static_cast<double>(sent - std::exchange(sent_bytes_, sent));
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

std::optional<std::string> RunMonitor::close() {
  counter_.reset();
  if (!telemetry_) return std::nullopt;
  telemetry_->close();
  auto& group = *engine_.world().group;
  const std::vector<int64_t> offsets_ns = engine::clock_offsets(group, hosts_, device_);
  const auto texts = engine::exchange_texts(group, telemetry_->late_steps().text(), device_);
  if (engine_.world().rank != 0) return std::nullopt;
  if (engine_.config().comms_logger.enabled) {
    for (const std::string& line : comms_table(comms_log().rows())) log_info(line);
  }
  const std::string timeline = timeline_json(texts, offsets_ns);
  if (!timeline.empty()) write_file(Env::posix(), options_.folder + "/timeline.json", bytes_of(timeline));
  if (!options_.trace) return std::nullopt;
  for (int rank = 0; rank < engine_.world().size; ++rank) {
    if (!Env::posix().stat(trace_path(options_.folder + "/trace", rank))) {
      log_info("the timeline of each rank is on its host, in ", options_.folder, "/trace");
      return std::nullopt;
    }
  }
  return telemetry_->join_traces(offsets_ns);
}

}  // namespace weft
