// Plays a rank that trains a few steps with two buckets, their reduces on a thread of their own, and writes its trace and
// its step metrics; or merges traces. Work is a loop that spins until a clock has moved: the shape is real, the times are not.
//
//   trace_sample rank FOLDER RANK STEPS [--die]     --die: stop without closing the files, as a crash would
//   trace_sample merge OUT FILE...
#include <unistd.h>

#include <cstdio>
#include <future>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/metrics_file.h"
#include "weft/monitor/span.h"
#include "weft/monitor/step_times.h"
#include "weft/monitor/trace_merge.h"
#include "weft/monitor/trace_writer.h"

namespace weft {
namespace {

void work_for(int64_t us) {
  const Stopwatch watch;
  while (watch.elapsed_ns() < us * 1000) {
  }
}

// Ends on a thread of its own, as a reduce does.
std::future<void> start_reduce(int32_t bucket) {
  OpenSpan open = begin_span({.name = "reduce", .category = SpanCategory::kReduce, .bucket = bucket, .bytes = 1 << 20});
  return std::async(std::launch::async, [span = std::move(open)]() mutable {
    work_for(300);
    span.end();
  });
}

void train_one_step(int64_t number) {
  const Span step({.name = "step", .category = SpanCategory::kStep, .key = "step", .value = number});
  {
    const Span forward({.name = "forward", .category = SpanCategory::kForward});
    work_for(200);
  }
  std::vector<std::future<void>> reduces;
  {
    const Span backward({.name = "backward", .category = SpanCategory::kBackward});
    for (const int32_t bucket : {0, 1}) {
      work_for(100);
      reduces.push_back(start_reduce(bucket));
    }
  }
  const Span optimizer({.name = "optimizer \"AdamW\"\n", .category = SpanCategory::kOptimizer});
  for (std::future<void>& reduce : reduces) {
    const Span wait({.name = "wait for reduce", .category = SpanCategory::kExposedWait});
    reduce.get();
  }
  work_for(100);
}

void run_rank(const std::string& folder, int64_t rank, int64_t num_steps, bool dies) {
  set_spans_on(true);
  TraceWriter trace(Env::posix(), trace_path(folder, rank), {.rank = rank, .host = "here", .run_id = "sample"});
  MetricsFile csv(Env::posix(), cat(folder, "/metrics.rank_", rank, ".csv"), MetricsFormat::kCsv, 1);
  MetricsFile lines(Env::posix(), cat(folder, "/metrics.rank_", rank, ".jsonl"), MetricsFormat::kJsonLines, 1);
  StepCollector collector;
  SpanBatch batch;
  for (int64_t step = 1; step <= num_steps; ++step) {
    train_one_step(step);
    drain_spans(batch);
    trace.add(batch.events);
    for (const StepTimes& times : collector.add(batch.events)) {
      const StepMetrics row{.step = times.step,
                            .step_ms = times.step_ms,
                            .forward_ms = times.forward_ms,
                            .backward_ms = times.backward_ms,
                            .optimizer_ms = times.optimizer_ms,
                            .exposed_comm_ms = times.exposed_comm_ms};
      csv.add(row);
      lines.add(row);
    }
  }
  if (!dies) return;
  trace.flush();
  ::_exit(9);
}

int run(const std::vector<std::string>& words) {
  if (words.size() >= 4 && words[0] == "rank") {
    run_rank(words[1], std::stoll(words[2]), std::stoll(words[3]), words.size() > 4);
    return 0;
  }
  if (words.size() < 3 || words[0] != "merge") return 2;
  std::vector<TraceSource> sources;
  for (size_t i = 2; i < words.size(); ++i) sources.push_back({.path = words[i]});
  const MergedTrace merged = merge_traces(Env::posix(), sources, words[1]);
  std::printf("%zu cut short\n", merged.cut_short.size());
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) try { return weft::run({argv + 1, argv + argc}); } catch (const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
