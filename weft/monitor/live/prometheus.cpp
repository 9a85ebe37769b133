#include "weft/monitor/live/prometheus.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "weft/base/text.h"
#include "weft/base/utf8.h"

namespace weft {
namespace {

// In a label's value a backslash, a quote and a line end are escaped; damaged UTF-8 would make a scraper drop the lot.
std::string label_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const CodePoint point = take_code_point(text);
    if (!point.valid)
      out += kReplacementCharacter;
    else if (point.value == '\n')
      out += "\\n";
    else if (point.value == '\\' || point.value == '"')
      out += cat('\\', point.bytes);
    else
      out += point.bytes;
  }
  return out;
}

std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return cat(value);
}

struct Labels {
  std::string text;  // "a=\"b\",c=\"d\""

  Labels& add(std::string_view name, std::string_view value) {
    text += cat(text.empty() ? "" : ",", name, "=\"", label_text(value), "\"");
    return *this;
  }
};

// One metric: its head once, before its first sample, and none where there is no sample.
class Family {
 public:
  Family(std::string& out, std::string_view name, std::string_view type, std::string_view help)
      : out_(out), name_(name), type_(type), help_(help) {}

  void add(double value, const Labels& labels = {}) {
    if (!started_) out_ += cat("# HELP ", name_, " ", help_, "\n# TYPE ", name_, " ", type_, "\n");
    started_ = true;
    out_ += cat(name_, labels.text.empty() ? "" : cat("{", labels.text, "}"), " ", value_text(value), "\n");
  }
  void add(const std::optional<double>& value, double scale, const Labels& labels = {}) {
    if (value) add(*value * scale, labels);
  }

 private:
  std::string& out_;
  const std::string_view name_, type_, help_;
  bool started_ = false;
};

struct NumberRow {
  const char* metric;
  const char* type;
  const char* field;  // of metrics.jsonl or ranks.json
  double scale;
  const char* help;
};

constexpr NumberRow kRunRows[] = {
    {"weft_loss", "gauge", "loss", 1, "Loss of the last step."},
    {"weft_learning_rate", "gauge", "lr", 1, "Learning rate of the last step."},
    {"weft_gradient_norm", "gauge", "grad_norm", 1, "Global norm of the gradients before clipping."},
    {"weft_loss_scale", "gauge", "loss_scale", 1, "What the loss is multiplied by before backward (fp16)."},
    {"weft_samples_total", "counter", "samples", 1, "Samples seen since the start of training, over all ranks."},
    {"weft_skipped_steps_total", "counter", "skipped_steps", 1, "Steps whose update was left out."},
    {"weft_samples_per_second", "gauge", "samples_per_s", 1, "Samples a second over all ranks."},
    {"weft_tokens_per_second", "gauge", "tokens_per_s", 1, "Tokens a second over all ranks."},
    {"weft_step_seconds", "gauge", "step_ms", 1e-3, "Time of the last step on rank 0."},
    {"weft_flops_per_second", "gauge", "flops_per_s", 1, "Floating-point operations a second over all ranks."},
    {"weft_mfu_ratio", "gauge", "mfu", 1, "Share of the peak that the model's operations reach."},
    {"weft_step_sent_bytes", "gauge", "sent_bytes", 1,
     "Bytes of gradients and parameters that rank 0 sent in the last step."},
    {"weft_device_fragmentation_ratio", "gauge", "device_fragmentation", 1,
     "Part of the device memory that rank 0 holds from the driver which no tensor uses."},
};

// Fields with _min, _mean and _max behind them.
constexpr NumberRow kOverRankRows[] = {
    {"weft_ranks_step_seconds", "gauge", "step_ms", 1e-3, "Time of the last step, over ranks."},
    {"weft_ranks_busy_seconds", "gauge", "busy_ms", 1e-3,
     "Time of the last step less its waits for communication, over ranks."},
    {"weft_ranks_wait_seconds", "gauge", "waits_ms", 1e-3, "Waits for communication in the last step, over ranks."},
    {"weft_ranks_resident_bytes", "gauge", "rss_bytes", 1, "Resident memory, over ranks."},
    {"weft_ranks_device_bytes", "gauge", "device_bytes", 1, "Device memory allocated, over ranks."},
};

struct PartRow {
  const char* part;
  const char* field;
};
constexpr PartRow kPartRows[] = {{"data", "data_ms"},
                                 {"forward", "forward_ms"},
                                 {"backward", "backward_ms"},
                                 {"optimizer", "optimizer_ms"},
                                 {"exposed_communication", "exposed_comm_ms"},
                                 {"checkpoint", "checkpoint_ms"},
                                 {"other", "other_ms"}};

constexpr NumberRow kRankRows[] = {
    {"weft_rank_step_seconds", "gauge", "step_ms", 1e-3, "Time of a step, mean over the last steps."},
    {"weft_rank_busy_seconds", "gauge", "busy_ms", 1e-3, "Time of a step less what it waited for communication."},
    {"weft_rank_resident_bytes", "gauge", "rss_bytes", 1, "Resident memory of the rank's process."},
    {"weft_rank_peak_resident_bytes", "gauge", "peak_rss_bytes", 1, "The most that was resident so far."},
    {"weft_rank_host_bytes", "gauge", "host_bytes", 1, "Its part of its host's memory, shared memory counted once."},
    {"weft_rank_device_bytes", "gauge", "device_bytes", 1, "Device memory allocated now."},
    {"weft_rank_peak_device_bytes", "gauge", "peak_device_bytes", 1,
     "The most device memory that was allocated so far."},
    {"weft_rank_device_reserved_bytes", "gauge", "device_reserved_bytes", 1, "Device memory held from the driver."},
    {"weft_rank_cpu_ratio", "gauge", "cpu_percent", 1e-2, "CPU use of the rank's process; 1 is one core."},
    {"weft_rank_gpu_ratio", "gauge", "gpu_percent", 1e-2, "Share of time in which the GPU worked."},
};

void add_status(std::string& out, const LiveState& state) {
  Labels info;
  info.add("run", state.name).add("status", state.status);
  for (const auto& [name, text] : state.words) info.add(name, text);
  Family(out, "weft_run_info", "gauge", "The run; always 1.").add(1, info);
  Family(out, "weft_running", "gauge", "1 while the run says that it is running.")
      .add(state.status == "running" ? 1 : 0);
  Family(out, "weft_stalled", "gauge", "1 when a running run has stood still far longer than its steps take.")
      .add(state.stalled ? 1 : 0);
  if (state.step) Family(out, "weft_step", "gauge", "Number of the last step.").add(static_cast<double>(*state.step));
  if (state.progress_unix_s > 0)
    Family(out, "weft_last_step_timestamp_seconds", "gauge",
           "When the last step was seen to end, seconds since 1970 by the clock of who serves this.")
        .add(state.progress_unix_s);
  if (state.world > 0)
    Family(out, "weft_world_size", "gauge", "Ranks of the run.").add(static_cast<double>(state.world));
  Family(out, "weft_not_finite_losses_total", "counter", "Steps so far whose loss was not a finite number.")
      .add(static_cast<double>(state.num_bad_losses));
}

void add_run(std::string& out, const LiveState& state) {
  for (const auto& row : kRunRows)
    Family(out, row.metric, row.type, row.help).add(state.latest.get(row.field), row.scale);
  Family parts(out, "weft_step_part_seconds", "gauge",
               "Where the last step's time went on rank 0; waits lie inside the other parts.");
  for (const auto& [part, field] : kPartRows) parts.add(state.latest.get(field), 1e-3, Labels().add("part", part));
  Family sent(out, "weft_step_operation_sent_bytes", "gauge",
              "Bytes that rank 0 sent in the last step, by what for: gradients, parameters, losses and what ranks tell "
              "of a step.");
  for (const char* operation : {"reduce", "gather", "loss"})
    sent.add(state.latest.get(cat("sent_", operation, "_bytes")), 1, Labels().add("operation", operation));
  for (const auto& row : kOverRankRows) {
    Family over(out, row.metric, row.type, row.help);
    for (const char* what : {"min", "mean", "max"})
      over.add(state.latest.get(cat(row.field, "_", what)), row.scale, Labels().add("over", what));
  }
  Family targets(out, "weft_target_ratio", "gauge", "Utilisation, communication and memory as they are judged.");
  for (const auto& verdict : state.verdicts) targets.add(verdict.share, 1, Labels().add("what", verdict.id));
}

Labels labels_of(const RankState& rank) { return Labels().add("rank", cat(rank.rank)).add("host", rank.host); }

void add_ranks(std::string& out, const LiveState& state) {
  for (const auto& row : kRankRows) {
    Family family(out, row.metric, row.type, row.help);
    for (const auto& rank : state.ranks) family.add(rank.numbers.get(row.field), row.scale, labels_of(rank));
  }
  Family unused(out, "weft_rank_device_fragmentation_ratio", "gauge",
                "Part of the device memory held from the driver which no tensor uses.");
  for (const auto& rank : state.ranks) {
    const double held = rank.numbers.get("device_reserved_bytes").value_or(0);
    if (held > 0) unused.add(1 - rank.numbers.get("device_bytes").value_or(held) / held, labels_of(rank));
  }
  Family parts(out, "weft_rank_part_seconds", "gauge", "Where a step's time goes, mean over the last steps.");
  for (const auto& rank : state.ranks)
    for (const auto& [part, field] : kPartRows)
      parts.add(rank.numbers.get(field), 1e-3, labels_of(rank).add("part", part));
  Family health(out, "weft_rank_health", "gauge", "1 for the state the rank is in.");
  for (const auto& rank : state.ranks)
    for (const auto state_of : {RankHealth::kGood, RankHealth::kWaiting, RankHealth::kSlow, RankHealth::kSilent})
      health.add(rank.health == state_of ? 1 : 0, labels_of(rank).add("state", health_name(state_of)));
  Family slow(out, "weft_rank_slow_ratio", "gauge", "How much slower than the others a rank is that was found slow.");
  for (const auto& rank : state.slow)
    slow.add(rank.percent, 1e-2,
             Labels().add("rank", cat(rank.rank)).add("phase", rank.phase).add("where", rank.where));
}

}  // namespace

std::string prometheus_text(const LiveState& state) {
  std::string out;
  add_status(out, state);
  add_run(out, state);
  add_ranks(out, state);
  return out;
}

}  // namespace weft
