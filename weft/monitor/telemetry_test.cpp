#include "weft/monitor/telemetry.h"

#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace weft {
namespace {

class TelemetryOfRank0 : public testing::Test {
 protected:
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

}  // namespace
}  // namespace weft
