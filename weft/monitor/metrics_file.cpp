#include "weft/monitor/metrics_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/json_text.h"
#include "weft/monitor/line_reader.h"
#include "weft/monitor/terminal.h"

namespace weft {
namespace {

// On-disk: names keep their meaning and their order; new ones come last.
constexpr MetricsColumn kMetricsColumns[] = {{"samples", &StepMetrics::samples},
                                             {"loss", &StepMetrics::loss},
                                             {"lr", &StepMetrics::lr},
                                             {"grad_norm", &StepMetrics::grad_norm},
                                             {"loss_scale", &StepMetrics::loss_scale},
                                             {"samples_per_s", &StepMetrics::samples_per_s},
                                             {"tokens_per_s", &StepMetrics::tokens_per_s},
                                             {"step_ms", &StepMetrics::step_ms},
                                             {"forward_ms", &StepMetrics::forward_ms},
                                             {"backward_ms", &StepMetrics::backward_ms},
                                             {"optimizer_ms", &StepMetrics::optimizer_ms},
                                             {"exposed_comm_ms", &StepMetrics::exposed_comm_ms},
                                             {"data_ms", &StepMetrics::data_ms},
                                             {"checkpoint_ms", &StepMetrics::checkpoint_ms},
                                             {"other_ms", &StepMetrics::other_ms},
                                             {"skipped_steps", &StepMetrics::skipped_steps},
                                             {"flops_per_s", &StepMetrics::flops_per_s},
                                             {"mfu", &StepMetrics::mfu},
                                             {"sent_bytes", &StepMetrics::sent_bytes},
                                             {"rss_bytes", &StepMetrics::rss_bytes},
                                             {"device_bytes", &StepMetrics::device_bytes},
                                             {"device_reserved_bytes", &StepMetrics::device_reserved_bytes},
                                             {"cpu_percent", &StepMetrics::cpu_percent},
                                             {"gpu_percent", &StepMetrics::gpu_percent},
                                             {"unix_s", &StepMetrics::unix_s},
                                             {"step_ms_min", &StepMetrics::step_ms_min},
                                             {"step_ms_mean", &StepMetrics::step_ms_mean},
                                             {"step_ms_max", &StepMetrics::step_ms_max},
                                             {"waits_ms_max", &StepMetrics::waits_ms_max},
                                             {"forward_busy_ms", &StepMetrics::forward_busy_ms},
                                             {"backward_busy_ms", &StepMetrics::backward_busy_ms},
                                             {"optimizer_busy_ms", &StepMetrics::optimizer_busy_ms},
                                             {"busy_ms_min", &StepMetrics::busy_ms_min},
                                             {"busy_ms_mean", &StepMetrics::busy_ms_mean},
                                             {"busy_ms_max", &StepMetrics::busy_ms_max},
                                             {"waits_ms_min", &StepMetrics::waits_ms_min},
                                             {"waits_ms_mean", &StepMetrics::waits_ms_mean},
                                             {"rss_bytes_min", &StepMetrics::rss_bytes_min},
                                             {"rss_bytes_mean", &StepMetrics::rss_bytes_mean},
                                             {"rss_bytes_max", &StepMetrics::rss_bytes_max},
                                             {"device_bytes_min", &StepMetrics::device_bytes_min},
                                             {"device_bytes_mean", &StepMetrics::device_bytes_mean},
                                             {"device_bytes_max", &StepMetrics::device_bytes_max},
                                             {"device_fragmentation", &StepMetrics::device_fragmentation},
                                             {"sent_reduce_bytes", &StepMetrics::sent_reduce_bytes},
                                             {"sent_gather_bytes", &StepMetrics::sent_gather_bytes},
                                             {"sent_loss_bytes", &StepMetrics::sent_loss_bytes},
                                             {"peak_rss_bytes", &StepMetrics::peak_rss_bytes},
                                             {"peak_device_bytes", &StepMetrics::peak_device_bytes},
                                             {"peak_device_reserved_bytes", &StepMetrics::peak_device_reserved_bytes}};

std::string csv_header() {
  std::string out = "step";
  for (const MetricsColumn& column : kMetricsColumns) out += cat(',', column.name);
  return out;
}

std::string csv_row(const StepMetrics& metrics, size_t num_columns) {
  std::string out = cat(metrics.step);
  for (const MetricsColumn& column : std::span(kMetricsColumns).first(num_columns)) {
    out += ',';
    if (const auto& value = metrics.*column.value) out += std::isnan(*value) ? "nan" : cat(*value);
  }
  return out;
}

constexpr std::string_view kJsonStart = "{\"step\":";

std::string json_row(const StepMetrics& metrics) {
  std::string out = cat(kJsonStart, metrics.step);
  for (const MetricsColumn& column : kMetricsColumns) {
    const auto& value = metrics.*column.value;
    if (!value) continue;
    out += cat(",\"", column.name, "\":");
    append_json_number(out, *value);
  }
  return out + "}";
}

// Nothing for a line that is no row of ours.
std::optional<int64_t> step_of_csv(std::string_view line, size_t num_columns) {
  int64_t step = 0;
  const auto [at, code] = std::from_chars(line.data(), line.data() + line.size(), step);
  const bool is_row = code == std::errc() && at != line.data() + line.size() && *at == ',' &&
                      static_cast<size_t>(std::ranges::count(line, ',')) == num_columns;
  return is_row ? std::optional(step) : std::nullopt;
}

std::optional<int64_t> step_of_json(std::string_view line) {
  const auto row = nlohmann::json::parse(line, nullptr, false);
  if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer()) return std::nullopt;
  return row["step"].get<int64_t>();
}

bool is_start_of(std::string_view text, std::string_view whole) {
  return text.substr(0, whole.size()) == whole.substr(0, text.size());
}

// How many columns a header of this or of an older version has: new ones come last.
std::optional<size_t> columns_of(std::string_view header) {
  const std::string ours = csv_header();
  const bool is_ours = header == ours || (header.starts_with("step,") && ours.starts_with(cat(header, ',')));
  return is_ours ? std::optional<size_t>(std::ranges::count(header, ',')) : std::nullopt;
}

[[noreturn]] void refuse_metrics_line(const std::string& path, const FileLine& line) {
  throw Error(ErrorKind::kInput, {.title = "the metrics file holds something else",
                                  .what = cat("no row of step metrics: ", printable(line.text.substr(0, 80), {})),
                                  .where = cat(path, ":", line.number),
                                  .fix = "give the metrics another file, or move this one away"});
}

}  // namespace

std::span<const MetricsColumn> metrics_columns() { return kMetricsColumns; }

MetricsFile::MetricsFile(Env& env, const std::string& path, MetricsFormat format, int64_t next_step)
    : path_(path), format_(format), num_columns_(std::size(kMetricsColumns)) {
  const auto info = env.stat(path);
  // A pipe or a device has no size to cut.
  const bool has_rows = info && info->kind == FileKind::kFile;
  const uint64_t end = has_rows ? end_of_rows_before(env, next_step) : 0;
  auto file = env.open(path, info ? OpenMode::kReadWrite : OpenMode::kCreate);
  if (has_rows && info->bytes != end) file->truncate(end);
  file_.emplace(std::move(file), end);
  if (end == 0 && format == MetricsFormat::kCsv) file_->put(csv_header() + "\n");
}

uint64_t MetricsFile::end_of_rows_before(Env& env, int64_t next_step) {
  const bool is_csv = format_ == MetricsFormat::kCsv;
  const std::string header = csv_header();
  uint64_t end = 0;
  LineReader lines(env, path_);
  while (const auto line = lines.next()) {
    const bool is_header = is_csv && line->number == 1;
    if (!line->is_whole) {
      const bool is_ours = line->number > 1 || is_start_of(line->text, is_csv ? header : std::string(kJsonStart));
      if (!is_ours) refuse_metrics_line(path_, *line);
      break;
    }
    if (is_header) {
      const auto columns = columns_of(line->text);
      if (!columns) refuse_metrics_line(path_, *line);
      num_columns_ = *columns;
      end = line->start + line->text.size() + 1;
      continue;
    }
    const auto step = is_csv ? step_of_csv(line->text, num_columns_) : step_of_json(line->text);
    if (!step) refuse_metrics_line(path_, *line);
    if (*step >= next_step) break;
    last_step_ = step;
    end = line->start + line->text.size() + 1;
  }
  return end;
}

void MetricsFile::add(const StepMetrics& metrics) {
  if (last_step_ && metrics.step <= *last_step_) return;
  last_step_ = metrics.step;
  std::string text = format_ == MetricsFormat::kCsv ? csv_row(metrics, num_columns_) : json_row(metrics);
  text += '\n';
  // The header may not have fitted when the file was made.
  if (file_->offset() == 0 && format_ == MetricsFormat::kCsv) text = cat(csv_header(), "\n", text);
  if (!file_->put(text)) ++num_left_out_;
}

}  // namespace weft
