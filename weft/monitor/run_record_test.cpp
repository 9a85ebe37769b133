#include "weft/monitor/run_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

RunRecord with_steps(int count, int64_t step_ns = 1'000'000) {
  RunRecord record;
  record.facts.tokens_per_step = 10;
  for (int i = 0; i < count; ++i) record.add_step(static_cast<float>(i), step_ns * (i + 1));
  return record;
}

TEST(RunRecord, WarmUpIsFiveStepsButNeverMoreThanAThird) {
  EXPECT_EQ(num_warmup_steps(1), 0);
  EXPECT_EQ(num_warmup_steps(6), 2);
  EXPECT_EQ(num_warmup_steps(100), 5);
}

TEST(RunRecord, TimesLeaveTheWarmUpOut) {
  const auto times = with_steps(15).times_ms();  // timed: 6..15 ms
  EXPECT_DOUBLE_EQ(times.min, 6);
  EXPECT_DOUBLE_EQ(times.median, 10);
  EXPECT_DOUBLE_EQ(times.p90, 14);
}

TEST(RunRecord, RateIsTokensOverTimedSteps) {
  EXPECT_DOUBLE_EQ(with_steps(15).tokens_per_s(), 10 * 10 / 0.105);  // 6 + ... + 15 = 105 ms
}

TEST(RunRecord, FinalLossIsTheMeanOfTheLastTenth) {
  EXPECT_DOUBLE_EQ(with_steps(5).final_loss(), 4);
  EXPECT_DOUBLE_EQ(with_steps(20).final_loss(), 18.5);
}

TEST(RunRecord, AnEmptyRunHasNoNumbersAndStillRenders) {
  const auto json = nlohmann::json::parse(RunRecord().to_json());
  EXPECT_TRUE(json["final_loss"].is_null());
  EXPECT_EQ(json["steps"], 0);
  EXPECT_EQ(json["step_ms"]["median"], 0.0);
}

TEST(RunRecord, BitsTellLossesThatJsonCannotHold) {
  RunRecord record;
  record.add_step(1.5F, 1);
  record.add_step(std::numeric_limits<float>::infinity(), 1);
  const auto json = nlohmann::json::parse(record.to_json());
  EXPECT_EQ(json["loss_bits"], (std::vector<std::string>{"3fc00000", "7f800000"}));
  EXPECT_EQ(json["loss"][0], 1.5);
  EXPECT_TRUE(json["loss"][1].is_null());
}

TEST(RunRecord, DeviceMemoryStandsOnlyWhereThereIsADevice) {
  RunRecord record;
  EXPECT_FALSE(nlohmann::json::parse(record.to_json()).contains("peak_device_bytes"));
  record.facts.peak_device_bytes = 7;
  EXPECT_EQ(nlohmann::json::parse(record.to_json())["peak_device_bytes"], 7);
}

TEST(RunRecord, ScalesOfTheLossStandOnlyInFp16) {
  RunRecord record;
  record.facts.first_step = 10;
  record.add_step(1, 1);
  EXPECT_FALSE(nlohmann::json::parse(record.to_json()).contains("loss_scale"));
  record.add_scale(65536, true);
  record.add_step(1, 1);
  record.add_scale(32768, false);
  const auto json = nlohmann::json::parse(record.to_json());
  EXPECT_EQ(json["loss_scale"], (std::vector<double>{65536, 32768}));
  EXPECT_EQ(json["skipped_steps"], std::vector<int64_t>{11});
}

TEST(RunRecord, NamesOfAnyBytesRender) {
  RunRecord record;
  record.facts.name = "\xff\"\n";
  EXPECT_NO_THROW(nlohmann::json::parse(record.to_json()));
}

}  // namespace
}  // namespace weft
