// The curves of a run: its rows as points, smoothed, with the counts and the charts that follow from them. Values and pure
// functions for the report; any thread, no failure.
#pragma once

#include <optional>
#include <vector>

#include "weft/monitor/run_files.h"
#include "weft/monitor/svg_chart.h"

namespace weft::detail {

struct ReportData {
  // One point for each row; what was not measured is NaN.
  std::vector<ChartPoint> loss, smooth_loss, rate, smooth_rate;
  std::vector<ChartPoint> held_out;
  std::vector<ChartReference> references;  // losses worth knowing while reading the curve
  bool rate_is_samples = false;            // where no tokens were counted
  bool every_row_has_loss = true;
  size_t num_bad_losses = 0;  // not finite
  // Absent when no step has such a value.
  std::optional<double> final_loss, final_smooth_loss, final_held_out, median_rate;
};

ReportData prepare_report(const RunFiles& run);

Chart make_loss_chart(const ReportData& data);
Chart make_rate_chart(const ReportData& data);

}  // namespace weft::detail
