#include "weft/monitor/run_files.h"

#include <algorithm>
#include <array>
#include <functional>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/file_time.h"
#include "weft/monitor/line_reader.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/run_fields_impl.h"

namespace weft {
namespace {

using detail::Json;

constexpr int64_t kSchema = 1;
constexpr size_t kMaxLogBytes = 64 << 10, kMaxLogLines = 12;
constexpr std::array kRunFileNames = {"result.json", "metrics.jsonl", "settings.json", "ranks.json", "timeline.json"};

struct RowColumn {
  const char* name;
  double RunRow::* value;
};

constexpr RowColumn kRowColumns[] = {{"lr", &RunRow::lr},
                                     {"grad_norm", &RunRow::grad_norm},
                                     {"loss_scale", &RunRow::loss_scale},
                                     {"samples_per_s", &RunRow::samples_per_s},
                                     {"tokens_per_s", &RunRow::tokens_per_s},
                                     {"step_ms", &RunRow::step_ms},
                                     {"data_ms", &RunRow::data_ms},
                                     {"forward_ms", &RunRow::forward_ms},
                                     {"backward_ms", &RunRow::backward_ms},
                                     {"optimizer_ms", &RunRow::optimizer_ms},
                                     {"exposed_comm_ms", &RunRow::exposed_comm_ms},
                                     {"checkpoint_ms", &RunRow::checkpoint_ms},
                                     {"other_ms", &RunRow::other_ms},
                                     {"forward_busy_ms", &RunRow::forward_busy_ms},
                                     {"backward_busy_ms", &RunRow::backward_busy_ms},
                                     {"optimizer_busy_ms", &RunRow::optimizer_busy_ms},
                                     {"mfu", &RunRow::mfu},
                                     {"cpu_percent", &RunRow::cpu_percent},
                                     {"gpu_percent", &RunRow::gpu_percent},
                                     {"rss_bytes", &RunRow::rss_bytes},
                                     {"device_bytes", &RunRow::device_bytes},
                                     {"device_reserved_bytes", &RunRow::device_reserved_bytes},
                                     {"peak_rss_bytes", &RunRow::peak_rss_bytes},
                                     {"peak_device_bytes", &RunRow::peak_device_bytes},
                                     {"peak_device_reserved_bytes", &RunRow::peak_device_reserved_bytes},
                                     {"unix_s", &RunRow::unix_s},
                                     {"device_fragmentation", &RunRow::device_fragmentation},
                                     {"sent_reduce_bytes", &RunRow::sent_reduce_bytes},
                                     {"sent_gather_bytes", &RunRow::sent_gather_bytes},
                                     {"sent_loss_bytes", &RunRow::sent_loss_bytes}};

std::optional<RunRow> row_of(const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  constexpr int64_t kNone = std::numeric_limits<int64_t>::min();
  RunRow row{.step = detail::whole_of(json, "step", kNone)};
  if (row.step == kNone) return std::nullopt;
  row.has_loss = json.contains("loss");
  row.loss = detail::number_of(json, "loss");
  for (const RowColumn& column : kRowColumns) row.*column.value = detail::number_of(json, column.name);
  return row;
}

// In order of steps; of equal steps the later row stays.
std::vector<RunRow> in_order(std::vector<RunRow> rows) {
  std::ranges::stable_sort(rows, {}, &RunRow::step);
  std::vector<RunRow> out;
  out.reserve(rows.size());
  for (const RunRow& row : rows) {
    if (!out.empty() && out.back().step == row.step) out.pop_back();
    out.push_back(row);
  }
  return out;
}

class Loader {
 public:
  Loader(Env& env, const RunLimits& limits, RunFiles& run) : env_(env), limits_(limits), run_(run) {}

  void load() {
    run_.result = read<RunResult>("result.json", detail::result_from);
    load_rows();
    const auto limited = [&](auto from) { return [=, this](const Json& root) { return from(root, limits_); }; };
    run_.ranks = read<RunRanks>("ranks.json", limited(detail::ranks_from));
    run_.settings = read<RunSettings>("settings.json", limited(detail::settings_from));
    run_.timeline = read<RunTimeline>("timeline.json", limited(detail::timeline_from));
    run_.flops = read<RunFlops>("flops.json", limited(detail::flops_from));
    load_log();
    run_.has_flight_dumps = is_there("flight");
    for (const char* name : {"metrics.jsonl", "ranks.json"}) {
      const double written_s = is_there(name) ? modified_unix_s(env_, path_of(name)) : 0;
      if (written_s > 0 && !(written_s <= run_.written_unix_s)) run_.written_unix_s = written_s;
    }
  }

 private:
  std::string path_of(const char* name) const { return cat(run_.folder, "/", name); }
  bool is_there(const char* name) const {
    try {
      return env_.stat(path_of(name)).has_value();
    } catch (const Error&) {
      return false;  // a folder that may not be searched has nothing for us
    }
  }
  void note(const char* name, std::string_view why) { run_.notes.push_back(cat(name, ": ", why)); }

  template <typename T>
  std::optional<T> read(const char* name, const std::function<T(const Json&)>& from) {
    if (!is_there(name)) return std::nullopt;
    try {
      const auto info = env_.stat(path_of(name));
      if (info->kind != FileKind::kFile) return note(name, "not a file"), std::nullopt;
      const Json root = Json::parse(read_file(env_, path_of(name), limits_.json_bytes), nullptr, false);
      if (!root.is_object()) return note(name, "not a JSON object; it may be half written"), std::nullopt;
      if (const int64_t schema = detail::whole_of(root, "schema", kSchema); schema != kSchema)
        note(name, cat("schema ", schema, ", this weft knows ", kSchema, "; read as far as it goes"));
      return from(root);
    } catch (const Error& error) {
      note(name, error.text().what.empty() ? error.text().title : error.text().what);
      return std::nullopt;
    }
  }

  void load_rows() {
    if (is_there("metrics.jsonl")) {
      try {
        read_rows();
      } catch (const Error& error) {
        note("metrics.jsonl", error.text().what.empty() ? error.text().title : error.text().what);
      }
      run_.rows = in_order(std::move(run_.rows));
    }
    if (run_.rows.empty() && run_.result) rows_from_result(*run_.result);
  }

  void read_rows() {
    if (env_.stat(path_of("metrics.jsonl"))->kind != FileKind::kFile) return note("metrics.jsonl", "not a file");
    LineReader lines(env_, path_of("metrics.jsonl"));
    size_t num_bad = 0;
    while (const auto line = lines.next()) {
      if (run_.rows.size() == limits_.rows) {
        note("metrics.jsonl",
             cat("only the first ", grouped_text(static_cast<int64_t>(limits_.rows)), " rows are read"));
        break;
      }
      const auto row = row_of(line->text);
      if (row)
        run_.rows.push_back(*row);
      else if (line->is_whole)
        ++num_bad;
      else
        note("metrics.jsonl", "the last line is torn, as after a crash; it is left out");
    }
    if (num_bad > 0)
      note("metrics.jsonl", cat(num_bad, num_bad == 1 ? " line is" : " lines are", " no row and left out"));
  }

  void rows_from_result(const RunResult& result) {
    for (size_t i = 0; i < result.losses.size(); ++i) {
      RunRow row{.step = result.first_step + static_cast<int64_t>(i) + 1, .has_loss = true};
      row.loss = result.losses[i];
      run_.rows.push_back(row);
    }
  }

  // The end of it: what a crashed run said last.
  void load_log() {
    if (!is_there("log.txt")) return;
    try {
      if (env_.stat(path_of("log.txt"))->kind != FileKind::kFile) return;
      const auto file = env_.open(path_of("log.txt"), OpenMode::kRead);
      const uint64_t size = file->size(), from = size > kMaxLogBytes ? size - kMaxLogBytes : 0;
      std::string text(kMaxLogBytes, '\0');
      text.resize(file->read_at(from, std::as_writable_bytes(std::span(text))));
      keep_last_lines(text, from > 0);
    } catch (const Error& error) {
      note("log.txt", error.text().what);
    }
  }

  void keep_last_lines(const std::string& text, bool starts_inside) {
    std::vector<std::string> lines;
    for (size_t at = starts_inside ? std::min(text.find('\n'), text.size() - 1) + 1 : 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      if (end > at) lines.push_back(text.substr(at, std::min<size_t>(end - at, 2000)));
      at = end + 1;
    }
    const size_t kept = std::min(kMaxLogLines, lines.size());
    run_.last_lines.assign(lines.end() - static_cast<std::ptrdiff_t>(kept), lines.end());
  }

  Env& env_;
  const RunLimits& limits_;
  RunFiles& run_;
};

}  // namespace

std::string RunFiles::name() const {
  if (result && !result->name.empty()) return result->name;
  const size_t end = folder.find_last_not_of('/');
  if (end == std::string::npos) return folder;
  const size_t slash = folder.rfind('/', end);
  return folder.substr(slash == std::string::npos ? 0 : slash + 1,
                       end - (slash == std::string::npos ? 0 : slash + 1) + 1);
}

bool is_run_folder(Env& env, const std::string& folder) {
  return std::ranges::any_of(kRunFileNames,
                             [&](const char* name) { return env.stat(cat(folder, "/", name)).has_value(); });
}

RunFiles load_run(Env& env, const std::string& folder, const RunLimits& limits) {
  const auto info = env.stat(folder);
  if (!info || info->kind != FileKind::kFolder) {
    throw Error(ErrorKind::kInput, {.title = info ? "a run is a folder" : "there is no such run",
                                    .what = "",
                                    .where = folder,
                                    .fix = "give the folder that weft train left, such as runs/mine"});
  }
  RunFiles run{.folder = folder};
  Loader(env, limits, run).load();
  return run;
}

}  // namespace weft
