#include <algorithm>
#include <cmath>

#include "weft/monitor/run_fields_impl.h"

namespace weft::detail {
namespace {

constexpr size_t kMaxTextBytes = 4096, kMaxKinds = 64;
constexpr int64_t kMaxModuleDepth = 64;
constexpr double kLargestWhole = 9e15;  // doubles hold every whole number below it

const Json& list_of(const Json& root, const char* key) {
  static const Json kEmpty = Json::array();
  const Json& found = field_of(root, key);
  return found.is_array() ? found : kEmpty;
}

std::map<std::string, double> bytes_by_kind(const Json& object) {
  std::map<std::string, double> out;
  if (!object.is_object()) return out;
  for (const auto& [kind, bytes] : object.items()) {
    if (bytes.is_number() && out.size() < kMaxKinds) out[shortened(kind)] = bytes.get<double>();
  }
  return out;
}

std::vector<double> losses_of(const Json& root, size_t limit) {
  std::vector<double> out;
  for (const Json& loss : list_of(root, "loss")) {
    if (out.size() == limit) break;
    out.push_back(loss.is_number() ? loss.get<double>() : kUnknown);
  }
  return out;
}

RankRow rank_from(const Json& it) {
  return {.rank = whole_of(it, "rank", -1),
          .host = text_of(it, "host"),
          .step_ms = number_of(it, "step_ms"),
          .data_ms = number_of(it, "data_ms"),
          .forward_ms = number_of(it, "forward_ms"),
          .backward_ms = number_of(it, "backward_ms"),
          .optimizer_ms = number_of(it, "optimizer_ms"),
          .exposed_comm_ms = number_of(it, "exposed_comm_ms"),
          .checkpoint_ms = number_of(it, "checkpoint_ms"),
          .busy_ms = number_of(it, "busy_ms"),
          .rss_bytes = number_of(it, "rss_bytes"),
          .device_bytes = number_of(it, "device_bytes"),
          .device_reserved_bytes = number_of(it, "device_reserved_bytes"),
          .peak_rss_bytes = number_of(it, "peak_rss_bytes"),
          .peak_device_bytes = number_of(it, "peak_device_bytes"),
          .peak_device_reserved_bytes = number_of(it, "peak_device_reserved_bytes"),
          .host_bytes = number_of(it, "host_bytes"),
          .cpu_percent = number_of(it, "cpu_percent"),
          .gpu_percent = number_of(it, "gpu_percent")};
}

SlowRank slow_from(const Json& it) {
  const auto or_zero = [](double value) { return std::isnan(value) ? 0 : value; };
  return {.rank = static_cast<int>(whole_of(it, "rank", -1)),
          .phase = text_of(it, "phase"),
          .where = text_of(it, "where"),
          .ms = or_zero(number_of(it, "ms")),
          .percent = or_zero(number_of(it, "percent")),
          .since_step = whole_of(it, "since_step", 0)};
}

AdviceRow advice_from(const Json& it) {
  return {.severity = text_of(it, "severity"),
          .path = text_of(it, "path"),
          .en = text_of(it, "en"),
          .zh = text_of(it, "zh"),
          .fix_en = text_of(it, "fix_en"),
          .fix_zh = text_of(it, "fix_zh")};
}

bool nests(const Json& value) {
  if (!value.is_structured()) return false;
  for (const Json& inner : value) {
    if (inner.is_structured()) return true;
  }
  return false;
}

// A value that nests is shown by its kind alone: printing recurses, and a hostile file nests as deep as it is long.
std::string value_text(const Json& value) {
  if (value.is_string()) return shortened(value.get<std::string>());
  if (nests(value)) return value.is_array() ? "[...]" : "{...}";
  return shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// [row, start_ns, end_ns, name, category, bucket, bytes]
std::optional<TimelineSpan> span_from(const Json& it, size_t num_rows) {
  if (!it.is_array() || it.size() < 5 || !it[0].is_number_unsigned() || !it[1].is_number() || !it[2].is_number())
    return std::nullopt;
  TimelineSpan span{.row = it[0].get<size_t>(), .start_ns = it[1].get<double>(), .end_ns = it[2].get<double>()};
  if (span.row >= num_rows || !(span.end_ns >= span.start_ns) || std::fabs(span.start_ns) > kLargestWhole ||
      span.end_ns > kLargestWhole)
    return std::nullopt;
  if (it[3].is_string()) span.name = shortened(it[3].get<std::string>());
  if (it[4].is_string()) span.category = shortened(it[4].get<std::string>());
  if (it.size() > 5 && it[5].is_number_integer()) span.bucket = it[5].get<int64_t>();
  if (it.size() > 6 && it[6].is_number_integer()) span.bytes = it[6].get<int64_t>();
  return span;
}

FlopsRow flops_row_from(const Json& it) {
  return {.name = text_of(it, "name"),
          .type = text_of(it, "type"),
          .depth = std::clamp<int64_t>(whole_of(it, "depth", 0), 0, kMaxModuleDepth),
          .num_parameters = number_of(it, "parameters"),
          .forward = number_of(it, "forward"),
          .backward = number_of(it, "backward"),
          .recomputed = number_of(it, "recomputed"),
          .ms = number_of(it, "ms")};
}

}  // namespace

const Json& field_of(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

double number_of(const Json& object, const char* key) {
  const Json& found = field_of(object, key);
  return found.is_number() ? found.get<double>() : kUnknown;
}

int64_t whole_of(const Json& object, const char* key, int64_t otherwise) {
  const Json& found = field_of(object, key);
  if (!found.is_number_integer() || std::fabs(found.get<double>()) > kLargestWhole) return otherwise;
  return found.get<int64_t>();
}

std::string text_of(const Json& object, const char* key) {
  const Json& found = field_of(object, key);
  return found.is_string() ? shortened(found.get<std::string>()) : "";
}

std::string shortened(std::string text) {
  if (text.size() <= kMaxTextBytes) return text;
  text.resize(kMaxTextBytes);
  return text + "...";
}

RunResult result_from(const Json& root) {
  const Json& buckets = field_of(root, "buckets");
  RunResult out{.name = text_of(root, "name"),
                .status = text_of(root, "status"),
                .device = text_of(root, "device"),
                .data = text_of(root, "data"),
                .params = whole_of(root, "params", 0),
                .world = whole_of(root, "world", 0),
                .stage = whole_of(root, "stage", -1),
                .threads = whole_of(root, "threads", 0),
                .seed = whole_of(root, "seed", 0),
                .first_step = whole_of(root, "first_step", 0),
                .steps = whole_of(root, "steps", 0),
                .tokens_per_step = whole_of(root, "tokens_per_step", 0),
                .final_loss = number_of(root, "final_loss"),
                .held_out_loss = number_of(root, "held_out_loss"),
                .unigram_entropy = number_of(root, "unigram_entropy"),
                .tokens_per_s = number_of(root, "tokens_per_s"),
                .bytes_sent = number_of(root, "bytes_sent"),
                .peak_rss_bytes = number_of(root, "peak_rss_bytes"),
                .peak_device_bytes = number_of(root, "peak_device_bytes"),
                .host_memory_bytes = number_of(root, "host_memory_bytes"),
                .device_memory_bytes = number_of(root, "device_memory_bytes"),
                .bound_exposed_ms = number_of(buckets, "bound_exposed_ms"),
                .achieved_exposed_ms = number_of(buckets, "achieved_exposed_ms"),
                .state_bytes = bytes_by_kind(field_of(root, "state_bytes")),
                .ledger = bytes_by_kind(field_of(root, "ledger")),
                .losses = losses_of(root, RunLimits().rows)};
  return out;
}

RunRanks ranks_from(const Json& root, const RunLimits& limits) {
  RunRanks out{
      .step = whole_of(root, "step", 0), .world = whole_of(root, "world", 0), .unix_s = number_of(root, "unix_s")};
  for (const Json& it : list_of(root, "ranks")) {
    if (out.ranks.size() < limits.ranks && whole_of(it, "rank", -1) >= 0) out.ranks.push_back(rank_from(it));
  }
  std::ranges::stable_sort(out.ranks, {}, &RankRow::rank);
  for (const Json& it : list_of(root, "slow")) {
    if (out.slow.size() < limits.ranks && field_of(it, "phase").is_string()) out.slow.push_back(slow_from(it));
  }
  return out;
}

RunSettings settings_from(const Json& root, const RunLimits& limits) {
  RunSettings out;
  for (const Json& it : list_of(root, "settings")) {
    if (out.settings.size() == limits.settings) break;
    if (text_of(it, "path").empty()) continue;
    out.settings.push_back({text_of(it, "path"), value_text(field_of(it, "value")), text_of(it, "from")});
  }
  for (const Json& it : list_of(root, "advice")) {
    if (out.advice.size() == limits.settings) break;
    if (it.is_object()) out.advice.push_back(advice_from(it));
  }
  return out;
}

RunTimeline timeline_from(const Json& root, const RunLimits& limits) {
  RunTimeline out;
  for (const Json& it : list_of(root, "steps")) {
    TimelineStep step{whole_of(it, "step", 0), number_of(it, "start_ns"), number_of(it, "end_ns")};
    if (out.steps.size() < limits.settings && step.end_ns > step.start_ns && step.end_ns < kLargestWhole &&
        std::fabs(step.start_ns) < kLargestWhole)
      out.steps.push_back(step);
  }
  for (const Json& it : list_of(root, "rows")) {
    if (out.rows.size() == limits.ranks * 8) break;
    out.rows.push_back({whole_of(it, "rank", 0), text_of(it, "track")});
  }
  for (const Json& it : list_of(root, "spans")) {
    if (out.spans.size() == limits.spans) break;
    if (auto span = span_from(it, out.rows.size())) out.spans.push_back(std::move(*span));
  }
  return out;
}

RunFlops flops_from(const Json& root, const RunLimits& limits) {
  RunFlops out{.step = whole_of(root, "step", 0), .total = number_of(root, "total")};
  for (const Json& it : list_of(root, "modules")) {
    if (out.modules.size() == limits.modules) break;
    if (it.is_object()) out.modules.push_back(flops_row_from(it));
  }
  out.elsewhere = flops_row_from(field_of(root, "elsewhere"));
  return out;
}

}  // namespace weft::detail
