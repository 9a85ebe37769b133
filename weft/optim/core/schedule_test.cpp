#include "weft/optim/core/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "weft/optim/core/schedule_golden_impl.h"
#include "weft/optim/core/schedule_settings.h"
#include "weft/optim/core/test_refusal_impl.h"

namespace weft::optim {
namespace {

Schedule schedule_of(std::string_view type, std::string_view params) {
  return read_schedule({.type = std::string(type), .params = params_of(params)}, 2);
}

// 1e-12 of the value. torch makes its cosine by steps, each from the last, so that near 0 only the difference is small.
void expect_near(double found, double expected, std::string_view what) {
  EXPECT_LE(std::fabs(found - expected), 1e-12 * std::fabs(expected) + 1e-17)
      << what << ": " << found << " " << expected;
}

TEST(Schedule, GivesWhatDeepSpeedAndTorchGive) {
  for (const golden::Case& c : golden::cases()) {
    const Schedule schedule = schedule_of(c.type, c.params);
    for (const golden::Row& row : c.rows) {
      SCOPED_TRACE(testing::Message() << c.type << " " << c.params << " step " << row.step << " group " << row.group);
      expect_near(lr_at(schedule, row.step, golden::kBaseLrs[row.group], row.group), row.lr, "lr");
      const auto betas = betas_at(schedule, row.step, row.group);
      EXPECT_EQ(betas.has_value(), row.beta1 != 0);
      if (!betas) continue;
      expect_near(betas->first, row.beta1, "beta1");
      EXPECT_EQ(betas->second, row.beta2);
    }
  }
}

TEST(Schedule, TheGoldenTableCanTellADifference) {
  // Log and linear warm-up agree at both ends only.
  const Schedule log = schedule_of("WarmupLR", "{warmup_num_steps: 10}");
  const Schedule linear = schedule_of("WarmupLR", "{warmup_num_steps: 10, warmup_type: \"linear\"}");
  EXPECT_EQ(lr_at(log, 0, 1), lr_at(linear, 0, 1));
  EXPECT_GT(lr_at(log, 5, 1), lr_at(linear, 5, 1));
  EXPECT_EQ(lr_at(log, 11, 1), 1);
  EXPECT_EQ(lr_at(linear, 11, 1), 1);
}

TEST(Schedule, AFixedRateIsTheOptimizersOwn) {
  const Schedule fixed = read_schedule({});
  for (const int64_t step : {0, 1, 1'000'000}) EXPECT_EQ(lr_at(fixed, step, 0.25), 0.25);
  EXPECT_FALSE(betas_at(fixed, 3));
}

TEST(Schedule, ARunThatBeganElsewhereGoesOnFromThere) {
  const Schedule whole = schedule_of("WarmupDecayLR", "{total_num_steps: 100, warmup_num_steps: 10}");
  const Schedule rest =
      schedule_of("WarmupDecayLR", "{total_num_steps: 100, warmup_num_steps: 10, last_batch_iteration: 39}");
  for (const int64_t step : {0, 1, 30, 90}) EXPECT_EQ(lr_at(rest, step, 1), lr_at(whole, step + 40, 1));
}

TEST(Schedule, HugeStepsStayFinite) {
  for (const golden::Case& c : golden::cases()) {
    const Schedule schedule = schedule_of(c.type, c.params);
    EXPECT_TRUE(std::isfinite(lr_at(schedule, 1'000'000'000'000'000'000, 1))) << c.type;
    EXPECT_GE(lr_at(schedule, 1'000'000'000'000'000'000, 1), 0) << c.type;
  }
}

}  // namespace
}  // namespace weft::optim
