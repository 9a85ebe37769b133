#include "weft/monitor/run_summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "weft/base/quantile.h"
#include "weft/monitor/chart_data.h"
#include "weft/monitor/run_record.h"

namespace weft {
namespace {

double or_zero(double value) { return is_drawable(value) && value > 0 ? value : 0; }

// Waits of which a row does not say where they lie. The engine waits between backward and the optimizer, which counts as
// other, then at the end of backward, then in a forward that gathers.
void carve_waits(PartTimes& parts, double waits) {
  for (const StepPart from : {StepPart::kOther, StepPart::kBackward, StepPart::kForward, StepPart::kOptimizer}) {
    double& part = parts[static_cast<size_t>(from)];
    const double taken = std::clamp(waits, 0.0, part);
    part -= taken;
    waits -= taken;
    parts[static_cast<size_t>(StepPart::kExposedComm)] += taken;
  }
}

// Out of the parts of which a row says how long they were busy; how much that was.
double take_waits_inside(const RunRow& row, PartTimes& parts) {
  double taken = 0;
  const auto take = [&](StepPart part, double busy_ms) {
    if (!is_drawable(busy_ms)) return;
    double& whole = parts[static_cast<size_t>(part)];
    taken += std::max(0.0, whole - busy_ms);
    whole = std::min(whole, busy_ms);
  };
  take(StepPart::kForward, row.forward_busy_ms);
  take(StepPart::kBackward, row.backward_busy_ms);
  take(StepPart::kOptimizer, row.optimizer_busy_ms);
  parts[static_cast<size_t>(StepPart::kExposedComm)] += taken;
  return taken;
}

std::optional<PartTimes> mean_parts(const RunFiles& run) {
  PartTimes sum{};
  size_t count = 0;
  const auto first = static_cast<size_t>(num_warmup_steps(static_cast<int64_t>(run.rows.size())));
  for (size_t i = first; i < run.rows.size(); ++i) {
    const auto parts = parts_of(run.rows[i]);
    if (!parts) continue;
    ++count;
    for (size_t p = 0; p < kNumStepParts; ++p) sum[p] += (*parts)[p];
  }
  if (count == 0) return std::nullopt;
  for (double& part : sum) part /= static_cast<double>(count);
  return sum;
}

double last_tenth_loss(const RunFiles& run) {
  const size_t count = std::max<size_t>(1, run.rows.size() / 10);
  std::vector<double> losses;
  for (size_t i = run.rows.size() - std::min(count, run.rows.size()); i < run.rows.size(); ++i) {
    if (is_drawable(run.rows[i].loss)) losses.push_back(run.rows[i].loss);
  }
  return detail::mean_of(losses);
}

// A save or a slow disk may hold a run for many steps; a minute, and fifty steps, is past that.
bool stands_still(const RunSummary& summary) {
  const double patience_s = std::max(60.0, 0.05 * or_zero(summary.step_ms));
  return summary.stood_still_s > patience_s;
}

RunEnd state_of(const RunFiles& run, const RunSummary& summary) {
  if (!run.result) return RunEnd::kNotRecorded;
  const std::string& status = run.result->status;
  if (status == "finished") return RunEnd::kFinished;
  if (status == "stopped") return RunEnd::kStopped;
  if (status == "failed") return RunEnd::kFailed;
  if (status != "running") return RunEnd::kNotRecorded;
  return stands_still(summary) ? RunEnd::kLost : RunEnd::kRunning;
}

bool uses_device(const RunFiles& run) {
  if (run.result && is_drawable(run.result->peak_device_bytes)) return true;
  return std::ranges::any_of(run.rows, [](const RunRow& row) { return row.device_bytes > 0; });
}

double peak_bytes_of(const RunFiles& run, bool on_device) {
  double out = kUnknown;
  const auto grow = [&](double value) {
    if (value > 0 && !(value <= out)) out = value;
  };
  if (run.result) grow(on_device ? run.result->peak_device_bytes : run.result->peak_rss_bytes);
  for (const RunRow& row : run.rows) {
    grow(on_device ? row.device_bytes : row.rss_bytes);
    grow(on_device ? row.peak_device_bytes
                   : row.peak_rss_bytes);  // of a run that did not come to its result.json as well
  }
  return out;
}

}  // namespace

namespace detail {

std::vector<double> timed_values(const RunFiles& run, double RunRow::* column) {
  std::vector<double> out;
  const auto first = static_cast<size_t>(num_warmup_steps(static_cast<int64_t>(run.rows.size())));
  for (size_t i = first; i < run.rows.size(); ++i) {
    if (is_drawable(run.rows[i].*column)) out.push_back(run.rows[i].*column);
  }
  return out;
}

double mean_of(const std::vector<double>& values) {
  if (values.empty()) return kUnknown;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median_of(std::vector<double> values) {
  if (values.empty()) return kUnknown;
  std::ranges::sort(values);
  return nearest_rank(values, 0.5);
}

}  // namespace detail

const Words& words_of(StepPart part) {
  static const std::array<Words, kNumStepParts> kWords = {{{"data", "数据"},
                                                           {"forward", "前向"},
                                                           {"backward", "反向"},
                                                           {"exposed communication", "未被掩盖的通信"},
                                                           {"optimizer", "优化器"},
                                                           {"checkpoint", "检查点"},
                                                           {"other", "其他"}}};
  return kWords[static_cast<size_t>(part)];
}

Words words_of(RunEnd state) {
  switch (state) {
    case RunEnd::kFinished: return {"finished", "已完成"};
    case RunEnd::kStopped: return {"stopped", "被停止"};
    case RunEnd::kFailed: return {"failed", "失败"};
    case RunEnd::kRunning: return {"running", "运行中"};
    case RunEnd::kLost: return {"lost", "中断"};
    case RunEnd::kNotRecorded: return {"end not known", "结局未知"};
  }
  return {};
}

std::optional<PartTimes> parts_of(const RunRow& row) {
  if (!is_drawable(row.step_ms) || !is_drawable(row.forward_ms) || !is_drawable(row.backward_ms)) return std::nullopt;
  PartTimes out{};
  const auto set = [&](StepPart part, double ms) { out[static_cast<size_t>(part)] = or_zero(ms); };
  set(StepPart::kData, row.data_ms);
  set(StepPart::kForward, row.forward_ms);
  set(StepPart::kBackward, row.backward_ms);
  set(StepPart::kOptimizer, row.optimizer_ms);
  const double known = std::accumulate(out.begin(), out.end(), 0.0);
  set(StepPart::kOther, is_drawable(row.other_ms) ? row.other_ms : row.step_ms - known);
  set(StepPart::kCheckpoint, row.checkpoint_ms);
  carve_waits(out, or_zero(row.exposed_comm_ms) - take_waits_inside(row, out));
  // A save inside the step is in no other part; one after it comes on top.
  double& other = out[static_cast<size_t>(StepPart::kOther)];
  other -= std::min(other, or_zero(row.checkpoint_ms));
  return out;
}

double Overlap::hidden_share() const {
  const double most = std::min(compute_ms, comm_ms);
  return most > 0 ? std::clamp((comm_ms - exposed_ms) / most, 0.0, 1.0) : 1.0;
}

RunSummary summarize(const RunFiles& run, std::optional<double> now_unix_s) {
  using detail::median_of, detail::timed_values;
  RunSummary out{.step_ms = median_of(timed_values(run, &RunRow::step_ms)),
                 .tokens_per_s = median_of(timed_values(run, &RunRow::tokens_per_s)),
                 .samples_per_s = median_of(timed_values(run, &RunRow::samples_per_s)),
                 .mfu = median_of(timed_values(run, &RunRow::mfu)),
                 .final_loss = last_tenth_loss(run),
                 .peak_bytes = peak_bytes_of(run, uses_device(run)),
                 .peak_is_on_device = uses_device(run),
                 .parts_ms = mean_parts(run),
                 .overlap = detail::overlap_of(run)};
  if (!run.rows.empty()) out.last_step = run.rows.back().step;
  // By the files' own times: what the run says of its clock may be hours off.
  if (now_unix_s && is_drawable(run.written_unix_s))
    out.stood_still_s = std::max(0.0, *now_unix_s - run.written_unix_s);
  out.state = state_of(run, out);
  out.targets = detail::targets_of(run, out);
  return out;
}

}  // namespace weft
