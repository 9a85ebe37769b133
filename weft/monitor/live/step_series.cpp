#include "weft/monitor/live/step_series.h"

#include <algorithm>

namespace weft {
namespace {

void add_value(ColumnBin& bin, double value) {
  if (!std::isfinite(value)) return;
  bin.min = bin.count == 0 ? value : std::min(bin.min, value);
  bin.max = bin.count == 0 ? value : std::max(bin.max, value);
  bin.sum += value;
  ++bin.count;
}

void join(ColumnBin& into, const ColumnBin& other) {
  if (other.count == 0) return;
  into.min = into.count == 0 ? other.min : std::min(into.min, other.min);
  into.max = into.count == 0 ? other.max : std::max(into.max, other.max);
  into.sum += other.sum;
  into.count += other.count;
}

}  // namespace

void StepSeries::clear() {
  bins_.clear();
  stride_ = 1;
}

// A bin that is cut in its middle keeps the steps before the cut and, as sums cannot be taken apart, those behind it.
void StepSeries::cut_from(int64_t step) {
  while (!bins_.empty() && bins_.back().first_step >= step) bins_.pop_back();
  if (!bins_.empty()) bins_.back().last_step = std::min(bins_.back().last_step, step - 1);
}

void StepSeries::add(int64_t step, const SeriesRow& row) {
  if (step < 0) return;
  if (!bins_.empty() && step <= bins_.back().last_step) cut_from(step);
  if (bins_.empty() || bins_.back().first_step / stride_ != step / stride_) bins_.push_back({.first_step = step});
  SeriesBin& bin = bins_.back();
  bin.last_step = step;
  for (size_t i = 0; i < row.size(); ++i) add_value(bin.columns[i], row[i]);
  if (bins_.size() > max_bins_) join_pairs();
}

void StepSeries::join_pairs() {
  stride_ *= 2;
  size_t kept = 0;
  for (size_t i = 0; i < bins_.size(); ++i) {
    if (kept > 0 && bins_[kept - 1].first_step / stride_ == bins_[i].first_step / stride_) {
      SeriesBin& into = bins_[kept - 1];
      into.last_step = bins_[i].last_step;
      for (size_t c = 0; c < into.columns.size(); ++c) join(into.columns[c], bins_[i].columns[c]);
    } else {
      if (kept != i) bins_[kept] = bins_[i];
      ++kept;
    }
  }
  bins_.resize(kept);
  // Steps far apart (a metrics file of every thousandth step) may leave no pairs at this width.
  if (bins_.size() > max_bins_) join_pairs();
}

}  // namespace weft
