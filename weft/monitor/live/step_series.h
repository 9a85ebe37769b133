// The curves of a run in bounded memory, however many steps it has: bins of 1, 2, 4, ... steps, each with the least, the
// greatest and the mean of every column, so that a spike of one step in 100,000 is still seen.
//
// Between half of and all of max_bins bins are kept once a run is long: when they are full the bins are joined in pairs.
//
// Threads: one owner. Failure: none.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

namespace weft {

// The columns of metrics.jsonl that are kept as curves; names as in the file.
inline constexpr std::array<std::string_view, 22> kSeriesColumns = {
    "loss",
    "grad_norm",
    "lr",
    "tokens_per_s",
    "samples_per_s",
    "step_ms",
    "data_ms",
    "forward_ms",
    "backward_ms",
    "optimizer_ms",
    "exposed_comm_ms",
    "checkpoint_ms",
    "other_ms",
    "mfu",
    "rss_bytes",
    "device_bytes",
    "gpu_percent",
    "cpu_percent",
    "busy_ms_min",
    "busy_ms_max",
    "device_reserved_bytes",
    "device_fragmentation",
};
// Its place in kSeriesColumns, or their number where the name is not one of them.
constexpr size_t series_column(std::string_view name) {
  size_t i = 0;
  while (i < kSeriesColumns.size() && kSeriesColumns[i] != name) ++i;
  return i;
}

// NaN: the row has no such value.
using SeriesRow = std::array<double, kSeriesColumns.size()>;

struct ColumnBin {
  double min = 0, max = 0, sum = 0;
  int64_t count = 0;  // of finite values

  double mean() const { return count > 0 ? sum / static_cast<double>(count) : std::nan(""); }
};

struct SeriesBin {
  int64_t first_step = 0, last_step = 0;
  std::array<ColumnBin, kSeriesColumns.size()> columns;
};

class StepSeries {
 public:
  explicit StepSeries(size_t max_bins = 2048) : max_bins_(max_bins) {}

  // A step that is not above the last one: from there on the run was done again, and what stood there goes.
  void add(int64_t step, const SeriesRow& row);
  void clear();

  int64_t stride() const { return stride_; }  // steps in a bin
  const std::vector<SeriesBin>& bins() const { return bins_; }

 private:
  void cut_from(int64_t step);
  void join_pairs();

  const size_t max_bins_;
  int64_t stride_ = 1;
  std::vector<SeriesBin> bins_;  // ascending
};

}  // namespace weft
