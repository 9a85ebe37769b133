// A RunReport put in order: each step once, with the smoothed curve, the counts and the charts that follow from it.
// Values and pure functions for run_report.cpp; any thread, no failure.
#pragma once

#include <optional>
#include <vector>

#include "weft/monitor/run_report.h"
#include "weft/monitor/svg_chart.h"

namespace weft::detail {

struct ReportData {
  std::vector<StepPoint> steps;  // ascending, each step once
  // One point for each of `steps`; a rate that was not measured is NaN.
  std::vector<ChartPoint> loss, smooth_loss, rate, smooth_rate;
  std::vector<ChartPoint> held_out;
  size_t num_bad_losses = 0;  // not finite
  // Absent when no step has such a value.
  std::optional<double> final_loss, final_smooth_loss, final_held_out, median_rate;
};

ReportData prepare_report(const RunReport& report);

Chart make_loss_chart(const ReportData& data, const RunReport& report);
Chart make_rate_chart(const ReportData& data);

}  // namespace weft::detail
