#include <nlohmann/json.hpp>

#include "weft/monitor/chart_data.h"
#include "weft/monitor/run_compare.h"
#include "weft/monitor/run_report.h"

namespace weft {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson or_null(double value) { return is_drawable(value) ? OrderedJson(value) : OrderedJson(nullptr); }

const char* name_of(TargetMark mark) {
  switch (mark) {
    case TargetMark::kMet: return "met";
    case TargetMark::kMissed: return "missed";
    case TargetMark::kNotKnown: return "not_known";
    case TargetMark::kNone: return "none";
  }
  return "none";
}

// On-disk: these words are read by programs.
const char* name_of(RunEnd state) {
  switch (state) {
    case RunEnd::kFinished: return "finished";
    case RunEnd::kStopped: return "stopped";
    case RunEnd::kFailed: return "failed";
    case RunEnd::kRunning: return "running";
    case RunEnd::kLost: return "lost";
    case RunEnd::kNotRecorded: return "unknown";
  }
  return "unknown";
}

OrderedJson target_json(const TargetRow& row) {
  return {{"value", or_null(row.value)}, {"mark", name_of(row.mark)}, {"how", row.how.en}};
}

OrderedJson targets_json(const RunSummary& summary) {
  OrderedJson out = OrderedJson::object();
  for (const TargetRow& row : summary.targets) out[row.key] = target_json(row);
  return out;
}

OrderedJson parts_json(const std::optional<PartTimes>& parts) {
  if (!parts) return nullptr;
  static constexpr const char* kKeys[] = {"data",      "forward",    "backward", "exposed_comm",
                                          "optimizer", "checkpoint", "other"};
  OrderedJson out = OrderedJson::object();
  for (size_t p = 0; p < kNumStepParts; ++p) out[kKeys[p]] = or_null((*parts)[p]);
  return out;
}

OrderedJson overlap_json(const std::optional<Overlap>& overlap) {
  if (!overlap) return nullptr;
  return {{"compute_ms", overlap->compute_ms},
          {"comm_ms", overlap->comm_ms},
          {"exposed_ms", overlap->exposed_ms},
          {"achieved_ms", overlap->achieved_ms()},
          {"bound_ms", overlap->bound_ms()},
          {"hidden_share", overlap->hidden_share()},
          {"wait_for_ranks_ms", overlap->wait_for_ranks_ms}};
}

OrderedJson slow_json(const RunFiles& run) {
  OrderedJson out = OrderedJson::array();
  if (!run.ranks) return out;
  for (const SlowRank& it : run.ranks->slow)
    out.push_back({{"rank", it.rank},
                   {"phase", it.phase},
                   {"where", it.where},
                   {"percent", or_null(it.percent)},
                   {"ms", or_null(it.ms)},
                   {"since_step", it.since_step}});
  return out;
}

OrderedJson run_json(const RunFiles& run, const RunSummary& summary) {
  return {{"name", run.name()},
          {"folder", run.folder},
          {"state", name_of(summary.state)},
          {"steps", run.rows.size()},
          {"last_step", summary.last_step ? OrderedJson(*summary.last_step) : OrderedJson(nullptr)},
          {"final_loss", or_null(summary.final_loss)},
          {"step_ms", or_null(summary.step_ms)},
          {"tokens_per_s", or_null(summary.tokens_per_s)},
          {"samples_per_s", or_null(summary.samples_per_s)},
          {"mfu", or_null(summary.mfu)},
          {"peak_bytes", or_null(summary.peak_bytes)},
          {"parts_ms", parts_json(summary.parts_ms)},
          {"overlap", overlap_json(summary.overlap)},
          {"targets", targets_json(summary)},
          {"slow", slow_json(run)},
          {"notes", run.notes}};
}

OrderedJson numbers_json(const std::vector<ComparedNumber>& numbers) {
  OrderedJson out = OrderedJson::array();
  for (const ComparedNumber& it : numbers)
    out.push_back({{"name", it.key}, {"a", or_null(it.a)}, {"b", or_null(it.b)}, {"percent", or_null(it.percent())}});
  return out;
}

// Names come from files and may hold any bytes.
std::string text_of(const OrderedJson& json) {
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace

std::string report_json(const RunFiles& run, const ReportOptions& options) {
  OrderedJson out = {{"schema", 1}};
  out.update(run_json(run, summarize(run, options.now_unix_s)));
  return text_of(out);
}

std::string comparison_json(const RunComparison& it) {
  OrderedJson settings = OrderedJson::array();
  for (const ComparedSetting& row : it.settings) settings.push_back({{"path", row.path}, {"a", row.a}, {"b", row.b}});
  return text_of({{"schema", 1},
                  {"a", run_json(it.a, it.a_summary)},
                  {"b", run_json(it.b, it.b_summary)},
                  {"numbers", numbers_json(it.numbers)},
                  {"parts_ms", numbers_json(it.parts)},
                  {"settings", std::move(settings)}});
}

}  // namespace weft
