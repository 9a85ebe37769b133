#include <algorithm>
#include <cmath>

#include "weft/base/quantile.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/report_data_impl.h"

namespace weft::detail {
namespace {

std::optional<double> last_drawable(const std::vector<ChartPoint>& points) {
  const auto found = std::find_if(points.rbegin(), points.rend(), [](const auto& p) { return is_drawable(p.y); });
  return found == points.rend() ? std::nullopt : std::optional(found->y);
}

std::vector<double> drawable_values(const std::vector<ChartPoint>& points) {
  std::vector<double> values;
  for (const auto& point : points) {
    if (is_drawable(point.y)) values.push_back(point.y);
  }
  return values;
}

std::optional<double> median(const std::vector<ChartPoint>& points) {
  auto values = drawable_values(points);
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  return nearest_rank(values, 0.5);
}

// All of the data, unless a few spikes would press the curve flat: then what 99.5% of the steps stay under.
std::optional<ChartRange> range_without_spikes(const ReportData& data) {
  auto losses = drawable_values(data.loss);
  if (losses.size() < 3) return std::nullopt;
  RangeFinder shown;
  shown.add(losses.front());
  for (const auto& point : data.held_out) shown.add(point.y);
  for (const auto& reference : data.references) shown.add(reference.value);
  std::ranges::sort(losses);
  shown.add(losses.front());
  shown.add(losses[(losses.size() - 1) * 995 / 1000]);
  const ChartRange range = shown.range();
  const bool spikes = losses.back() > range.high + 0.5 * range.span();
  return spikes ? std::optional(range) : std::nullopt;
}

// A loss that falls from eleven to two spends most of a run in the lowest tenth of a plain axis.
bool wants_log(const ReportData& data, const std::optional<ChartRange>& fixed) {
  RangeFinder found;
  for (const auto& point : data.loss) found.add(point.y);
  for (const auto& reference : data.references) found.add(reference.value);
  const ChartRange range = fixed.value_or(found.range());
  return range.low > 0 && range.high / range.low > 3;
}

}  // namespace

ReportData prepare_report(const RunFiles& run) {
  ReportData data;
  const auto has_tokens = [](const RunRow& row) { return is_drawable(row.tokens_per_s); };
  data.rate_is_samples = std::ranges::none_of(run.rows, has_tokens);
  for (const RunRow& row : run.rows) {
    const auto x = static_cast<double>(row.step);
    const double rate = data.rate_is_samples ? row.samples_per_s : row.tokens_per_s;
    data.loss.push_back({x, row.loss});
    data.rate.push_back({x, rate > 0 ? rate : kUnknown});
    data.num_bad_losses += row.has_loss && !is_drawable(row.loss) ? 1 : 0;
    data.every_row_has_loss = data.every_row_has_loss && row.has_loss;
  }
  if (run.result && is_drawable(run.result->held_out_loss) && !run.rows.empty())
    data.held_out.push_back({static_cast<double>(run.rows.back().step), run.result->held_out_loss});
  if (run.result && is_drawable(run.result->unigram_entropy))
    data.references.push_back({"unigram entropy", run.result->unigram_entropy});
  data.smooth_loss = smoothed(data.loss);
  data.smooth_rate = smoothed(data.rate);
  data.final_loss = last_drawable(data.loss);
  data.final_smooth_loss = last_drawable(data.smooth_loss);
  data.final_held_out = last_drawable(data.held_out);
  data.median_rate = median(data.rate);
  return data;
}

Chart make_loss_chart(const ReportData& data) {
  Chart chart{.id = "loss", .title = "Loss by step", .x_label = "step", .mark_gaps = data.every_row_has_loss};
  chart.description = "Training loss of each step, faint, with a smoothed line on top.";
  if (data.final_smooth_loss) chart.description += cat(" The line ends at ", loss_text(*data.final_smooth_loss), ".");
  chart.series.push_back({.name = "each step", .look = SeriesLook::kFaint, .points = data.loss});
  chart.series.push_back({.name = "smoothed", .look = SeriesLook::kLine, .points = data.smooth_loss});
  if (!data.held_out.empty()) {
    chart.series.push_back({.name = "held-out data", .look = SeriesLook::kDots, .points = data.held_out});
  }
  chart.references = data.references;
  chart.y_range = range_without_spikes(data);
  chart.log_y = wants_log(data, chart.y_range);
  chart.y_label = chart.log_y ? "loss, logarithmic scale" : "loss";
  return chart;
}

Chart make_rate_chart(const ReportData& data) {
  Chart chart{.id = "rate", .title = "Throughput by step", .x_label = "step", .y_from_zero = true};
  chart.y_label = data.rate_is_samples ? "samples per second" : "tokens per second";
  chart.description = "Throughput of each step, faint, with a smoothed line on top.";
  if (data.median_rate) chart.description += cat(" The median is ", format_count(std::llround(*data.median_rate)), ".");
  chart.series.push_back({.name = "each step", .look = SeriesLook::kFaint, .points = data.rate});
  chart.series.push_back({.name = "smoothed", .look = SeriesLook::kLine, .points = data.smooth_rate});
  return chart;
}

}  // namespace weft::detail
