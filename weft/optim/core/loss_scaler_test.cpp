#include "weft/optim/core/loss_scaler.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/config/document.h"
#include "weft/config/reading.h"
#include "weft/optim/core/loss_scale_golden_impl.h"
#include "weft/optim/core/test_refusal_impl.h"

namespace weft::optim {
namespace {

using Outcome = LossScaler::Outcome;

config::Fp16 fp16_section(std::string_view fp16) {
  const auto source =
      std::make_shared<const config::Source>("c", cat("{\"train_batch_size\": 1, \"fp16\": ", fp16, "}"));
  return config::read_config(config::parse_document(source), {}).resolved.fp16;
}

std::vector<bool> overflows_of(const golden::ScalePattern& pattern) {
  std::vector<bool> out;
  bool overflow = false;
  for (const int64_t run : pattern.runs) {
    out.insert(out.end(), static_cast<size_t>(run), overflow);
    overflow = !overflow;
  }
  return out;
}

Outcome expected(const golden::ScaleRow& row, bool overflow) {
  if (!overflow) return Outcome::kStep;
  return row.at_minimum ? Outcome::kSkippedAtMinimum : Outcome::kSkipped;
}

void expect_like(LossScaler scaler, const golden::ScaleCase& golden, const std::vector<bool>& overflows) {
  auto row = golden.rows.begin();
  for (size_t i = 0; i < overflows.size(); ++i) {
    if (row + 1 != golden.rows.end() && row[1].update == static_cast<int64_t>(i)) ++row;
    ASSERT_EQ(scaler.scale(), row->scale) << "before update " << i;
    ASSERT_EQ(scaler.update(overflows[i]), expected(*row, overflows[i])) << "update " << i;
  }
  EXPECT_EQ(scaler.scale(), golden.rows.back().scale);
}

TEST(LossScaler, GivesWhatDeepSpeedGives) {
  const auto patterns = golden::scale_patterns();
  for (const golden::ScaleCase& golden : golden::scale_cases()) {
    SCOPED_TRACE(testing::Message() << golden.fp16 << ", overflows " << patterns[golden.pattern].name);
    const std::vector<bool> overflows = overflows_of(patterns[golden.pattern]);
    ASSERT_EQ(overflows.size(), 3000U);
    expect_like(read_loss_scaler(fp16_section(golden.fp16)), golden, overflows);
  }
}

TEST(LossScaler, TheFirstDoublingTakesOneSuccessMore) {
  LossScaler scaler({.initial_scale = 8, .window = 3});
  std::vector<double> scales;
  for (int i = 0; i < 8; ++i) scaler.update(false), scales.push_back(scaler.scale());
  EXPECT_EQ(scales, (std::vector<double>{8, 8, 8, 16, 16, 16, 32, 32}));
}

TEST(LossScaler, SpentHysteresisStaysSpentUntilADoubling) {
  LossScaler scaler({.initial_scale = 64, .window = 2});
  const auto overflow = [&] { return scaler.update(true), scaler.scale(); };
  EXPECT_EQ(overflow(), 64);
  scaler.update(false);
  EXPECT_EQ(overflow(), 32);
  EXPECT_EQ(overflow(), 16);
  for (int i = 0; i < 3; ++i) scaler.update(false);
  EXPECT_EQ(scaler.scale(), 32);
  EXPECT_EQ(overflow(), 32) << "refilled";
}

TEST(LossScaler, ConsecutiveHysteresisIsRefilledByASuccess) {
  LossScaler scaler({.initial_scale = 64, .consecutive_hysteresis = true});
  for (const bool overflow : {true, false, true, false}) scaler.update(overflow);
  EXPECT_EQ(scaler.scale(), 64);
  for (int i = 0; i < 2; ++i) scaler.update(true);
  EXPECT_EQ(scaler.scale(), 32);
}

TEST(LossScaler, SaysWhenItCannotComeDownAnyMore) {
  LossScaler scaler({.initial_scale = 2, .hysteresis = 1});
  EXPECT_EQ(scaler.update(true), Outcome::kSkipped);
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_EQ(scaler.update(true), Outcome::kSkippedAtMinimum);
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_EQ(scaler.update(false), Outcome::kStep);
}

TEST(LossScaler, AFixedScaleNeverMoves) {
  LossScaler scaler({.fixed_scale = 128, .window = 1});
  EXPECT_FALSE(scaler.is_dynamic());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(scaler.update(false), Outcome::kStep);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(scaler.update(true), Outcome::kSkipped);
  scaler.restore({.scale = 4});
  EXPECT_EQ(scaler.scale(), 128);
}

TEST(LossScaler, ARestoredOneGoesOnAsTheOther) {
  const LossScalerSettings settings = {.initial_scale = 1024, .window = 4, .hysteresis = 3};
  LossScaler whole(settings);
  for (int i = 0; i < 50; ++i) {
    LossScaler resumed(settings);
    resumed.restore(whole.state());
    for (int j = 0; j < 40; ++j) whole.update(j % 7 == 5), resumed.update(j % 7 == 5);
    ASSERT_EQ(resumed.state(), whole.state());
    whole.update(i % 3 == 0);
  }
}

TEST(LossScaler, ReadsTheConfig) {
  EXPECT_EQ(read_loss_scaler(fp16_section("{enabled: false, loss_scale: 8}")).scale(), 1);
  EXPECT_FALSE(read_loss_scaler({}).is_dynamic());
  EXPECT_EQ(read_loss_scaler(fp16_section("{enabled: true}")).scale(), 65536);
  EXPECT_TRUE(read_loss_scaler(fp16_section("{enabled: true}")).is_dynamic());
  EXPECT_EQ(read_loss_scaler(fp16_section("{enabled: true, loss_scale: 8.5}")).scale(), 8.5);
}

TEST(LossScaler, SaysEverythingThatIsWrongAtOnce) {
  const auto refusal = [](const config::Fp16& fp16) { return refusal_of([&] { read_loss_scaler(fp16); }); };
  const std::string said = refusal(
      {.enabled = true, .initial_scale_power = 200, .loss_scale_window = 0, .hysteresis = 0, .min_loss_scale = -1});
  for (const std::string_view part :
       {"initial_scale_power is 200, expected -126 to 127", "loss_scale_window is 0, expected more than 0",
        "hysteresis is 0, expected 1 or more", "min_loss_scale is -1, expected more than 0"}) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  }
  EXPECT_NE(refusal({.enabled = true, .loss_scale = -2}).find("loss_scale is -2"), std::string::npos);
  EXPECT_EQ(refusal({.enabled = true, .loss_scale = 2, .loss_scale_window = 0}), "(none)") << "it has no effect then";
}

TEST(LossScaler, UsedAloneChecksItsSettingsToo) {
  const auto refusal = [](const LossScalerSettings& settings) -> std::string {
    try {
      const LossScaler scaler(settings);
    } catch (const Error& error) {
      return error.what();
    }
    return "(none)";
  };
  const std::string said = refusal({.initial_scale = 0, .window = 0, .hysteresis = 0, .min_scale = NAN});
  for (const std::string_view part : {"initial_scale is 0", "window is 0", "hysteresis is 0", "min_scale is nan"})
    EXPECT_NE(said.find(part), std::string::npos) << said;
  EXPECT_NE(refusal({.fixed_scale = -1}).find("fixed_scale is -1"), std::string::npos);
  EXPECT_EQ(refusal({.fixed_scale = 8, .window = 0}), "(none)") << "it has no effect then";
}

}  // namespace
}  // namespace weft::optim
