#include "weft/cli/worker/telemetry.h"

#include <vector>

#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/monitor/trace_merge.h"

namespace weft::cli {
namespace {

std::string trace_folder(const std::string& run_folder) { return run_folder + "/trace"; }

std::unique_ptr<TraceWriter> open_trace(Env& env, const TelemetryOptions& o) {
  if (!o.trace) return nullptr;
  env.make_folders(trace_folder(o.folder));
  return std::make_unique<TraceWriter>(env, trace_path(trace_folder(o.folder), o.rank),
                                       TraceOwner{.rank = o.rank, .host = o.host, .run_id = o.run_id});
}

void add_times(StepMetrics& metrics, const StepTimes& times) {
  metrics.forward_ms = times.forward_ms;
  metrics.backward_ms = times.backward_ms;
  metrics.optimizer_ms = times.optimizer_ms;
  metrics.exposed_comm_ms = times.exposed_comm_ms;
}

}  // namespace

Telemetry::Telemetry(Env& env, const TelemetryOptions& options)
    : env_(env), o_(options), trace_(open_trace(env, options)), breakdown_(options.steps_per_print.value_or(0)) {
  if (o_.rank == 0) {
    csv_ = std::make_unique<MetricsFile>(env, o_.folder + "/metrics.csv", MetricsFormat::kCsv, o_.next_step);
    lines_ = std::make_unique<MetricsFile>(env, o_.folder + "/metrics.jsonl", MetricsFormat::kJsonLines, o_.next_step);
  }
  set_spans_on(true);
}

Telemetry::~Telemetry() { set_spans_on(false); }

void Telemetry::step_done(StepMetrics metrics) {
  drain_spans(batch_);
  if (trace_) {
    trace_->add(batch_.events);
    trace_->add_counters(now_ns(), read_counters());
  }
  for (const StepTimes& times : collector_.add(batch_.events)) {
    history_.add(times);
    if (times.step == metrics.step) add_times(metrics, times);
    if (o_.rank != 0 || !o_.breakdown) continue;
    for (const std::string& line : breakdown_.add(times)) log_info(line);
  }
  if (o_.rank != 0) return;
  csv_->add(metrics);
  lines_->add(metrics);
  if (o_.steps_per_print && metrics.step % *o_.steps_per_print == 0) print(metrics);
}

void Telemetry::print(const StepMetrics& metrics) const {
  std::string line = cat("step ", metrics.step, ": loss ", metrics.loss.value_or(0), ", lr ", metrics.lr.value_or(0));
  if (metrics.grad_norm) line += cat(", gradient norm ", *metrics.grad_norm);
  log_info(line, ", ", metrics.samples_per_s.value_or(0), " samples/s");
}

void Telemetry::close() {
  if (!trace_) return;
  drain_spans(batch_);
  trace_->add(batch_.events);
  trace_->close();
}

std::string Telemetry::join_traces(int num_ranks) {
  std::vector<TraceSource> sources;
  for (int rank = 0; rank < num_ranks; ++rank) sources.push_back({.path = trace_path(trace_folder(o_.folder), rank)});
  const std::string out = o_.folder + "/trace.json";
  merge_traces(env_, sources, out);
  return out;
}

}  // namespace weft::cli
