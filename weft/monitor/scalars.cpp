#include "weft/monitor/scalars.h"

#include <cmath>
#include <string_view>

#include "weft/base/text.h"

namespace weft {
namespace {

struct Named {
  std::string_view column, tag;
};

// On-disk: people's dashboards look for these. DeepSpeed's "step" is the time of its optimizer, not of the whole step.
constexpr Named kDeepSpeedNames[] = {{"loss", "Train/Samples/train_loss"},
                                     {"lr", "Train/Samples/lr"},
                                     {"loss_scale", "Train/Samples/loss_scale"},
                                     {"forward_ms", "Train/Samples/elapsed_time_ms_forward"},
                                     {"backward_ms", "Train/Samples/elapsed_time_ms_backward"},
                                     {"optimizer_ms", "Train/Samples/elapsed_time_ms_step"}};

// The x of everything, and the clock, which is no curve.
bool is_left_out(std::string_view column) { return column == "samples" || column == "unix_s"; }

std::string tag_of(std::string_view column) {
  for (const Named& named : kDeepSpeedNames) {
    if (named.column == column) return std::string(named.tag);
  }
  return cat("Train/Weft/", column);
}

}  // namespace

StepScalars scalars_of(const StepMetrics& metrics) {
  StepScalars out{.x = metrics.samples ? std::llround(*metrics.samples) : metrics.step};
  for (const MetricsColumn& column : metrics_columns()) {
    const auto& value = metrics.*column.value;
    if (value && !is_left_out(column.name)) out.values.push_back({.tag = tag_of(column.name), .value = *value});
  }
  return out;
}

}  // namespace weft
