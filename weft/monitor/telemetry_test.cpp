#include "weft/monitor/telemetry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"

namespace weft {
namespace {

class TelemetryOfRank0 : public testing::Test {
 protected:
  nlohmann::json row_of(std::span<const RankNumbers> ranks) {
    Telemetry telemetry(Env::posix(), {.folder = folder_.path().string(), .hosts = {"a", "b"}});
    telemetry.step_done({.step = 1}, ranks);
    return nlohmann::json::parse(read_file(Env::posix(), folder_ / "metrics.jsonl", 1 << 16));
  }
  // What the step leaves on standard error.
  std::string said(const StepMetrics& metrics) {
    testing::internal::CaptureStderr();
    {
      Telemetry telemetry(Env::posix(), {.folder = folder_.path().string(), .hosts = {"a"}, .steps_per_print = 1});
      telemetry.step_done(metrics, {});
    }
    return testing::internal::GetCapturedStderr();
  }

  test::TempDir folder_;
};

TEST_F(TelemetryOfRank0, LinesOfStepsPerPrintAreForPeople) {
  EXPECT_EQ(said({.step = 10,
                  .loss = 5.544614315032959,
                  .lr = 0.00123456789,
                  .grad_norm = 0.660555130116688,
                  .samples_per_s = 1500.121041016497}),
            "[weft] step 10: loss 5.545, lr 0.00123, gradient norm 0.661, 1.5K samples/s\n");
  EXPECT_EQ(said({.step = 11, .loss = 0, .lr = 1e-8, .samples_per_s = 0.12345}),
            "[weft] step 11: loss 0.000, lr 1e-08, 0.123 samples/s\n");
  EXPECT_EQ(said({.step = 12, .lr = 0.1, .samples_per_s = 999.9}), "[weft] step 12: lr 0.1, 1.0K samples/s\n")
      << "a loss that nobody gave is not 0";
  EXPECT_EQ(said({.step = 13}), "");
}

// Clocks are read two or three times a run, and every rank of a host has the reading of the one that was asked.
TEST(TelemetryOfAnyRank, APoorClockIsWarnedOfOnceAHost) {
  const test::TempDir folder;
  const auto said_of = [&](int64_t round_trip_ns, int64_t asked_rank) {
    testing::internal::CaptureStderr();
    {
      Telemetry telemetry(Env::posix(), {.folder = folder.path().string(), .rank = 1, .hosts = {"a", "b"}});
      for (int i = 0; i < 3; ++i) telemetry.add_clock({.round_trip_ns = round_trip_ns, .asked_rank = asked_rank});
    }
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said_of(1'000'000, 1), "");
  const std::string said = said_of(1'600'000, 1);
  EXPECT_NE(said.find("the clock of this host could be compared with rank 0's to 0.80 ms only"), std::string::npos)
      << said;
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  EXPECT_EQ(said_of(1'600'000, 0), "") << "another rank of this host says it";
}

TEST_F(TelemetryOfRank0, RowsHaveItsOwnPeaks) {
  std::vector<RankNumbers> ranks = {numbers_of({}), numbers_of({})};
  ranks[0].peak_rss_bytes = 5, ranks[1].peak_rss_bytes = 7;
  EXPECT_EQ(row_of(ranks)["peak_rss_bytes"], 5);
  EXPECT_FALSE(row_of(ranks).contains("peak_device_bytes")) << "there is no device";
  ranks[0].peak_device_bytes = 11, ranks[0].peak_device_reserved_bytes = 12;
  std::array<double, kNumRankNumbers> packed = {};
  ranks[0].pack(packed);
  ranks[0] = RankNumbers::unpack(packed);
  EXPECT_EQ(row_of(ranks)["peak_device_bytes"], 11);
  EXPECT_EQ(row_of(ranks)["peak_device_reserved_bytes"], 12);
}

}  // namespace
}  // namespace weft
