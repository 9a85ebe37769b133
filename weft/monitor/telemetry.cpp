#include "weft/monitor/telemetry.h"

#include <algorithm>
#include <cmath>

#include "weft/base/log.h"
#include "weft/base/log_copy.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/trace_merge.h"
#include "weft/monitor/write_trouble.h"

namespace weft {
namespace {

constexpr int64_t kClockErrorNs = 500'000;  // from here on steps of a few ms are drawn visibly wrong

std::string trace_folder(const std::string& run_folder) { return run_folder + "/trace"; }

std::unique_ptr<TraceWriter> open_trace(Env& env, const TelemetryOptions& o) {
  forget_write_trouble();  // the first file of a run, or none
  if (!o.trace) return nullptr;
  env.make_folders(trace_folder(o.folder));
  const auto rank = static_cast<size_t>(o.rank);
  return std::make_unique<TraceWriter>(
      env, trace_path(trace_folder(o.folder), o.rank),
      TraceOwner{.rank = o.rank, .host = rank < o.hosts.size() ? o.hosts[rank] : "", .run_id = o.run_id});
}

void add_times(StepMetrics& metrics, const StepTimes& times) {
  if (times.step != metrics.step) return;
  metrics.forward_ms = times.forward_ms;
  metrics.backward_ms = times.backward_ms;
  metrics.optimizer_ms = times.optimizer_ms;
  metrics.exposed_comm_ms = times.exposed_comm_ms;
  metrics.data_ms = times.data_ms;
  metrics.checkpoint_ms = times.checkpoint_ms;
  metrics.other_ms = times.other_ms;
  metrics.forward_busy_ms = times.forward_busy_ms;
  metrics.backward_busy_ms = times.backward_busy_ms;
  metrics.optimizer_busy_ms = times.optimizer_busy_ms;
}

struct OverRanks {
  double RankNumbers::* of;
  std::optional<double> StepMetrics::*min, StepMetrics::*mean, StepMetrics::*max;
};

constexpr OverRanks kOverRanks[] = {
    {&RankNumbers::step_ms, &StepMetrics::step_ms_min, &StepMetrics::step_ms_mean, &StepMetrics::step_ms_max},
    {&RankNumbers::busy_ms, &StepMetrics::busy_ms_min, &StepMetrics::busy_ms_mean, &StepMetrics::busy_ms_max},
    {&RankNumbers::exposed_comm_ms, &StepMetrics::waits_ms_min, &StepMetrics::waits_ms_mean,
     &StepMetrics::waits_ms_max},
    {&RankNumbers::rss_bytes, &StepMetrics::rss_bytes_min, &StepMetrics::rss_bytes_mean, &StepMetrics::rss_bytes_max},
    {&RankNumbers::device_bytes, &StepMetrics::device_bytes_min, &StepMetrics::device_bytes_mean,
     &StepMetrics::device_bytes_max}};

void add_ranks(StepMetrics& metrics, std::span<const RankNumbers> ranks) {
  if (ranks.empty()) return;
  for (const OverRanks& row : kOverRanks) {
    const auto [least, most] = std::ranges::minmax_element(ranks, {}, row.of);
    double sum = 0;
    for (const RankNumbers& one : ranks) sum += one.*row.of;
    const bool is_memory = row.of == &RankNumbers::rss_bytes || row.of == &RankNumbers::device_bytes;
    if (is_memory && (*most).*row.of <= 0) continue;  // there is no device
    metrics.*row.min = (*least).*row.of;
    metrics.*row.max = (*most).*row.of;
    metrics.*row.mean = sum / static_cast<double>(ranks.size());
  }
}

// Of this rank, the first; 0 is not known.
void add_peaks(StepMetrics& metrics, const RankNumbers& mine) {
  if (mine.peak_rss_bytes > 0) metrics.peak_rss_bytes = mine.peak_rss_bytes;
  if (mine.peak_device_bytes > 0) metrics.peak_device_bytes = mine.peak_device_bytes;
  if (mine.peak_device_reserved_bytes > 0) metrics.peak_device_reserved_bytes = mine.peak_device_reserved_bytes;
}

// "0.125", "12.3", "1.5K".
std::string rate_in_digits(double rate) {
  const bool is_large = rate >= 999.5 && rate < 1e18;
  return is_large ? format_count(std::llround(rate)) : significant_text(rate, 3);
}

}  // namespace

Telemetry::Telemetry(Env& env, TelemetryOptions options)
    : env_(env), o_(std::move(options)), trace_(open_trace(env, o_)), breakdown_(o_.steps_per_print.value_or(0)) {
  if (o_.rank == 0) {
    csv_ = std::make_unique<MetricsFile>(env, o_.folder + "/metrics.csv", MetricsFormat::kCsv, o_.next_step);
    lines_ = std::make_unique<MetricsFile>(env, o_.folder + "/metrics.jsonl", MetricsFormat::kJsonLines, o_.next_step);
    board_ = std::make_unique<RankBoard>(env, o_.folder + "/ranks.json", o_.hosts);
    sinks_ = std::make_unique<MonitorSinks>(env, o_.config,
                                            SinkOptions{.run_folder = o_.folder, .resumed = o_.next_step > 1});
  }
  // Where the folder is another host's, the others' lines stay on their own standard error.
  if (env.stat(o_.folder)) copy_log_to(o_.folder + "/log.txt", o_.rank == 0 ? LogLevel::kInfo : LogLevel::kWarn);
  set_spans_on(true);
}

Telemetry::~Telemetry() {
  set_spans_on(false);
  copy_log_to("", LogLevel::kError);
}

StepTimes Telemetry::collect(int64_t step) {
  drain_spans(batch_);
  if (is_traced(step)) {
    trace_->add(batch_.events);
    trace_->add_counters(now_ns(), read_counters());
  }
  late_.add(batch_.events);
  times_ = {};
  for (StepTimes& times : collector_.add(batch_.events)) {
    history_.add(times);
    if (o_.rank == 0 && o_.breakdown) {
      for (const std::string& line : breakdown_.add(times)) log_info(line);
    }
    if (times.step == step) times_ = std::move(times);
  }
  return times_;
}

void Telemetry::step_done(StepMetrics metrics, std::span<const RankNumbers> ranks) {
  if (o_.rank != 0) return;
  add_times(metrics, times_);
  add_ranks(metrics, ranks);
  if (!ranks.empty()) add_peaks(metrics, ranks[0]);
  csv_->add(metrics);
  lines_->add(metrics);
  sinks_->add(metrics);
  if (o_.steps_per_print && metrics.step % *o_.steps_per_print == 0) print(metrics);
  compare(metrics.step, ranks);
}

void Telemetry::compare(int64_t step, std::span<const RankNumbers> ranks) {
  for (const SlowRank& news : slow_.add(step, ranks)) news.is_over ? log_info(text_of(news)) : log_warn(text_of(news));
  board_->add(step, ranks, slow_.now());
}

void Telemetry::print(const StepMetrics& metrics) const {
  std::vector<std::string> parts;
  if (metrics.loss) parts.push_back(cat("loss ", loss_text(*metrics.loss)));
  if (metrics.lr) parts.push_back(cat("lr ", significant_text(*metrics.lr, 3)));
  if (metrics.grad_norm) parts.push_back(cat("gradient norm ", loss_text(*metrics.grad_norm)));
  if (metrics.samples_per_s) parts.push_back(cat(rate_in_digits(*metrics.samples_per_s), " samples/s"));
  if (!parts.empty()) log_info("step ", metrics.step, ": ", join(parts, ", "));
}

void Telemetry::close() {
  if (board_) board_->close();
  if (!trace_) return;
  drain_spans(batch_);
  late_.add(batch_.events);
  if (o_.trace_to == INT64_MAX) trace_->add(batch_.events);
  trace_->close();
}

void Telemetry::add_clock(const ClockReading& reading) {
  if (trace_) trace_->add_clock(reading);
  // One rank speaks for its host.
  if (reading.error_ns() <= kClockErrorNs || reading.asked_rank != o_.rank || told_of_clock_) return;
  told_of_clock_ = true;
  log_warn("the clock of this host could be compared with rank 0's to ",
           fixed_text(static_cast<double>(reading.error_ns()) * 1e-6, 2),
           " ms only: in traces and timelines its ranks may stand that much too early or too late");
}

std::optional<std::string> Telemetry::join_traces() {
  const auto sources = traces_in(env_, trace_folder(o_.folder));
  if (sources.size() < o_.hosts.size()) return std::nullopt;
  std::string out = o_.folder + "/trace.json";
  merge_traces(env_, sources, out);
  return out;
}

}  // namespace weft
