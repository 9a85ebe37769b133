#include "weft/monitor/live/step_series.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr size_t kLoss = series_column("loss"), kNorm = series_column("grad_norm");

SeriesRow row(double loss) {
  SeriesRow out;
  out.fill(std::nan(""));
  out[kLoss] = loss;
  return out;
}

TEST(StepSeries, AShortRunIsKeptStepByStep) {
  StepSeries series(8);
  for (int step = 1; step <= 8; ++step) series.add(step, row(step));
  ASSERT_EQ(series.bins().size(), 8u);
  EXPECT_EQ(series.stride(), 1);
  EXPECT_EQ(series.bins()[2].columns[kLoss].mean(), 3);
  EXPECT_EQ(series.bins()[2].columns[kNorm].count, 0);
}

TEST(StepSeries, ALongRunKeepsItsSpikesInBoundedMemory) {
  StepSeries series;
  for (int64_t step = 1; step <= 100'000; ++step)
    series.add(step, row(step == 77'777 ? 1000 : step == 50'001 ? -5 : 2));
  EXPECT_GE(series.bins().size(), 1000u);
  EXPECT_LE(series.bins().size(), 2048u);
  EXPECT_EQ(series.bins().front().first_step, 1);
  EXPECT_EQ(series.bins().back().last_step, 100'000);
  double low = 0, high = 0;
  int64_t count = 0, spike_at = 0;
  for (const auto& bin : series.bins()) {
    if (bin.columns[kLoss].max > high) spike_at = bin.first_step;
    low = std::min(low, bin.columns[kLoss].min);
    high = std::max(high, bin.columns[kLoss].max);
    count += bin.columns[kLoss].count;
  }
  EXPECT_EQ(low, -5);
  EXPECT_EQ(high, 1000);
  EXPECT_EQ(count, 100'000);
  EXPECT_NEAR(static_cast<double>(spike_at), 77'777, static_cast<double>(series.stride()));
}

TEST(StepSeries, BinsAreTheSameWhereverTheRunBegan) {
  StepSeries series(4);
  for (int64_t step = 1003; step <= 1020; ++step) series.add(step, row(1));
  for (size_t i = 1; i < series.bins().size(); ++i)
    EXPECT_EQ(series.bins()[i].first_step % series.stride(), 0) << "bins begin at multiples of their width";
}

TEST(StepSeries, LossesThatAreNoNumbersAreGaps) {
  StepSeries series(8);
  series.add(1, row(std::nan("")));
  series.add(2, row(INFINITY));
  EXPECT_EQ(series.bins()[0].columns[kLoss].count, 0);
  EXPECT_TRUE(std::isnan(series.bins()[1].columns[kLoss].mean()));
}

TEST(StepSeries, StepsDoneAgainTakeTheOldOnesAway) {
  StepSeries series(100);
  for (int step = 1; step <= 10; ++step) series.add(step, row(1));
  series.add(6, row(2));
  ASSERT_EQ(series.bins().size(), 6u);
  EXPECT_EQ(series.bins().back().columns[kLoss].mean(), 2);
}

TEST(StepSeries, RowsFarApartStayBounded) {
  StepSeries series(16);
  for (int64_t step = 0; step < 100; ++step) series.add(step * 1'000'000, row(1));
  EXPECT_LE(series.bins().size(), 16u);
  series.add(-1, row(1));
  EXPECT_EQ(series.bins().front().first_step, 0);
}

}  // namespace
}  // namespace weft
