#include "weft/monitor/step_times.h"

#include <algorithm>
#include <map>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/run_record.h"

namespace weft {
namespace {

struct Interval {
  int64_t start_ns, end_ns;
};

double to_ms(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

double length_ms(const Interval& interval) {
  return to_ms(duration_ns({.start_ns = interval.start_ns, .end_ns = interval.end_ns}));
}

// The time that at least one of them covers.
double covered_ms(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::start_ns);
  double total_ms = 0;
  int64_t done_ns = INT64_MIN;
  for (const Interval& one : intervals) {
    const int64_t from_ns = std::max(one.start_ns, done_ns);
    total_ms += length_ms({from_ns, one.end_ns});
    done_ns = std::max(done_ns, one.end_ns);
  }
  return total_ms;
}

// The spans of one step, by category.
struct StepSpans {
  std::vector<Interval> by_category[kNumSpanCategories];
  struct BucketSpans : BucketTime {
    int64_t started_ns = INT64_MIN;  // the last of them
  };
  std::map<int32_t, BucketSpans> buckets;

  std::vector<Interval>& of(SpanCategory category) {
    return by_category[std::min<size_t>(static_cast<size_t>(category), kNumSpanCategories - 1)];
  }

  void add(const SpanEvent& event, const SpanEvent& step) {
    // A reduce that began in the step before is still one reduce; the rest is cut to the step.
    const bool is_reduce = event.category == SpanCategory::kReduce;
    const int64_t start_ns = is_reduce ? event.start_ns : std::max(event.start_ns, step.start_ns);
    of(event.category).push_back({start_ns, event.end_ns});
    if (!is_reduce) return;
    BucketSpans& bucket = buckets.try_emplace(event.bucket, BucketSpans{{.bucket = event.bucket}}).first->second;
    bucket.ms += to_ms(duration_ns(event));
    bucket.started_ns = std::max(bucket.started_ns, event.start_ns);
    bucket.bytes += std::max<int64_t>(event.bytes, 0);
  }

  double covered_by(SpanCategory category) { return covered_ms(of(category)); }
  // Without what waits cover of it.
  double busy_in(const std::vector<Interval>& part) {
    std::vector<Interval> both = of(SpanCategory::kExposedWait);
    both.insert(both.end(), part.begin(), part.end());
    return std::max(0.0, covered_ms(std::move(both)) - covered_by(SpanCategory::kExposedWait));
  }
  int64_t last_backward_ns() {
    const auto& all = of(SpanCategory::kBackward);
    return all.empty() ? INT64_MAX : std::ranges::max_element(all, {}, &Interval::start_ns)->start_ns;
  }
};

double phases_ms(StepSpans& spans) {
  std::vector<Interval> all;
  for (const auto category :
       {SpanCategory::kForward, SpanCategory::kBackward, SpanCategory::kOptimizer, SpanCategory::kData})
    all.insert(all.end(), spans.of(category).begin(), spans.of(category).end());
  return covered_ms(std::move(all));
}

StepTimes times_of(const SpanEvent& step, StepSpans& spans) {
  StepTimes out{.step = step.value,
                .step_ms = to_ms(duration_ns(step)),
                .forward_ms = spans.covered_by(SpanCategory::kForward),
                .backward_ms = spans.covered_by(SpanCategory::kBackward),
                .optimizer_ms = spans.covered_by(SpanCategory::kOptimizer),
                .data_ms = spans.covered_by(SpanCategory::kData),
                .exposed_comm_ms = spans.covered_by(SpanCategory::kExposedWait),
                .gather_ms = spans.covered_by(SpanCategory::kGather),
                .reduce_ms = spans.covered_by(SpanCategory::kReduce)};
  out.other_ms = std::max(0.0, out.step_ms - phases_ms(spans));
  out.checkpoint_ms = spans.covered_by(SpanCategory::kDisk);
  out.forward_busy_ms = spans.busy_in(spans.of(SpanCategory::kForward));
  out.backward_busy_ms = spans.busy_in(spans.of(SpanCategory::kBackward));
  out.optimizer_busy_ms = spans.busy_in(spans.of(SpanCategory::kOptimizer));
  out.busy_ms = spans.busy_in({{step.start_ns, step.end_ns}});
  for (auto& [number, bucket] : spans.buckets) {
    bucket.ready_ms = length_ms({spans.last_backward_ns(), bucket.started_ns});
    out.buckets.push_back(bucket);
  }
  return out;
}

std::string ms_text(double sum_ms, int64_t num_steps) { return fixed_text(sum_ms / static_cast<double>(num_steps), 1); }

std::string communication_line(const StepTimes& sum, int64_t num_steps) {
  int64_t bytes = 0;
  for (const BucketTime& bucket : sum.buckets) bytes += bucket.bytes;
  std::string line = cat("  waiting for communication ", ms_text(sum.exposed_comm_ms, num_steps), " ms");
  if (sum.step_ms > 0) line += cat(" (", fixed_text(100 * sum.exposed_comm_ms / sum.step_ms, 1), " %)");
  if (sum.buckets.empty()) return line;
  const BucketTime& slowest = *std::ranges::max_element(sum.buckets, {}, &BucketTime::ms);
  return line + cat("; ", sum.buckets.size(), sum.buckets.size() == 1 ? " bucket, " : " buckets, ",
                    format_bytes(static_cast<uint64_t>(bytes / num_steps)), ", on their way for ",
                    ms_text(sum.reduce_ms, num_steps), " ms, longest bucket ", slowest.bucket, " with ",
                    ms_text(slowest.ms, num_steps), " ms");
}

void add_to(StepTimes& sum, const StepTimes& step) {
  for (const auto member :
       {&StepTimes::step_ms, &StepTimes::forward_ms, &StepTimes::backward_ms, &StepTimes::optimizer_ms,
        &StepTimes::data_ms, &StepTimes::other_ms, &StepTimes::exposed_comm_ms, &StepTimes::reduce_ms})
    sum.*member += step.*member;
  for (const BucketTime& bucket : step.buckets) {
    auto at = std::ranges::lower_bound(sum.buckets, bucket.bucket, {}, &BucketTime::bucket);
    if (at == sum.buckets.end() || at->bucket != bucket.bucket) at = sum.buckets.insert(at, {.bucket = bucket.bucket});
    at->ms += bucket.ms;
    at->bytes += bucket.bytes;
  }
}

Spread timed(const std::vector<double>& per_step) {
  const auto first = num_warmup_steps(static_cast<int64_t>(per_step.size()));
  return spread_of({per_step.begin() + first, per_step.end()});
}

}  // namespace

std::vector<StepTimes> StepCollector::add(std::span<const SpanEvent> events) {
  pending_.insert(pending_.end(), events.begin(), events.end());
  std::ranges::stable_sort(pending_, {}, &SpanEvent::end_ns);
  std::vector<StepTimes> out;
  size_t num_done = 0;
  StepSpans spans;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i].category != SpanCategory::kStep) continue;
    for (; num_done < i; ++num_done) spans.add(pending_[num_done], pending_[i]);
    out.push_back(times_of(pending_[i], spans));
    spans = {};
    num_done = i + 1;
  }
  if (pending_.size() - num_done > kMaxPending) {
    num_forgotten_ += pending_.size() - num_done - kMaxPending;
    num_done = pending_.size() - kMaxPending;
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(num_done));
  return out;
}

void StepHistory::add(const StepTimes& step) {
  step_ms_.push_back(step.step_ms);
  forward_ms_.push_back(step.forward_ms);
  backward_ms_.push_back(step.backward_ms);
  optimizer_ms_.push_back(step.optimizer_ms);
  exposed_comm_ms_.push_back(step.exposed_comm_ms);
}

StepSummary StepHistory::summary() const {
  return {.step_ms = timed(step_ms_),
          .forward_ms = timed(forward_ms_),
          .backward_ms = timed(backward_ms_),
          .optimizer_ms = timed(optimizer_ms_),
          .exposed_comm_ms = timed(exposed_comm_ms_)};
}

std::vector<std::string> Breakdown::add(const StepTimes& step) {
  if (steps_per_print_ <= 0) return {};
  add_to(sum_, step);
  ++num_steps_;
  if (step.step % steps_per_print_ != 0) return {};
  const auto mean = [&](double sum_ms) { return ms_text(sum_ms, num_steps_); };
  std::vector<std::string> lines = {cat("step ", step.step, ": ", mean(sum_.step_ms), " ms a step over ", num_steps_,
                                        ": forward ", mean(sum_.forward_ms), ", backward ", mean(sum_.backward_ms),
                                        ", optimizer ", mean(sum_.optimizer_ms), ", data ", mean(sum_.data_ms),
                                        ", other ", mean(sum_.other_ms))};
  if (sum_.exposed_comm_ms > 0 || !sum_.buckets.empty()) lines.push_back(communication_line(sum_, num_steps_));
  sum_ = {};
  num_steps_ = 0;
  return lines;
}

}  // namespace weft
