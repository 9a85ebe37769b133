#include "weft/monitor/metrics_file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "weft/base/crash_env.h"
#include "weft/base/error.h"

namespace weft {
namespace {

constexpr char kHeader[] =
    "step,samples,loss,lr,grad_norm,loss_scale,samples_per_s,tokens_per_s,step_ms,forward_ms,backward_ms,optimizer_ms,"
    "exposed_comm_ms,data_ms,checkpoint_ms,other_ms,skipped_steps,flops_per_s,mfu,sent_bytes,rss_bytes,device_bytes,"
    "device_reserved_bytes,cpu_percent,gpu_percent,unix_s,step_ms_min,step_ms_mean,step_ms_max,waits_ms_max,"
    "forward_busy_ms,backward_busy_ms,optimizer_busy_ms,busy_ms_min,busy_ms_mean,busy_ms_max,waits_ms_min,waits_ms_"
    "mean,"
    "rss_bytes_min,rss_bytes_mean,rss_bytes_max,device_bytes_min,device_bytes_mean,device_bytes_max,device_"
    "fragmentation,"
    "sent_reduce_bytes,sent_gather_bytes,sent_loss_bytes,peak_rss_bytes,peak_device_bytes,peak_device_reserved_bytes\n";

class Metrics : public testing::TestWithParam<MetricsFormat> {
 protected:
  std::string text() { return read_file(env_, "m", 1 << 20); }
  // Adds the steps as one run would, with a loss that names the run.
  void run(int64_t first, int64_t last, double loss = 1) {
    MetricsFile file(env_, "m", GetParam(), first);
    for (int64_t step = first; step <= last; ++step) file.add({.step = step, .loss = loss});
  }
  std::vector<int64_t> steps() {
    std::vector<int64_t> out;
    std::string all = text();
    EXPECT_TRUE(all.empty() || all.ends_with('\n'));
    if (GetParam() == MetricsFormat::kCsv) {
      EXPECT_TRUE(all.starts_with(kHeader));
      all.erase(0, sizeof kHeader - 1);
      EXPECT_EQ(all.find("step"), std::string::npos) << "one header";
    }
    for (size_t at = 0; at < all.size(); at = all.find('\n', at) + 1)
      out.push_back(std::stoll(all.substr(GetParam() == MetricsFormat::kCsv ? at : at + 8)));
    return out;
  }
  using Steps = std::vector<int64_t>;

  CrashEnv env_;
};

INSTANTIATE_TEST_SUITE_P(Formats, Metrics, testing::Values(MetricsFormat::kCsv, MetricsFormat::kJsonLines),
                         [](const auto& one) { return one.param == MetricsFormat::kCsv ? "Csv" : "JsonLines"; });

TEST_P(Metrics, AFileOfAnOlderVersionIsGoneOnWithInItsColumns) {
  if (GetParam() == MetricsFormat::kJsonLines) return;  // a row says what it has
  write_file(env_, "m", bytes_of("step,samples,loss\n1,,3\n2,,4\n3,,5\n"));
  run(3, 4, 9);
  EXPECT_EQ(text(), "step,samples,loss\n1,,3\n2,,4\n3,,9\n4,,9\n");
  for (const char* const others : {"step,samp\n1,\n", "step,loss\n1,2\n", "step\n1\n"}) {
    write_file(env_, "m", bytes_of(others));
    EXPECT_THROW(run(3, 4), Error) << others;
  }
}

TEST_P(Metrics, AResumedRunGoesOnWithoutRepeatingSteps) {
  run(1, 5, 1);
  run(4, 6, 2);
  EXPECT_EQ(steps(), (Steps{1, 2, 3, 4, 5, 6}));
  const std::string row = GetParam() == MetricsFormat::kCsv ? "\n4,,2," : "\n{\"step\":4,\"loss\":2}";
  EXPECT_NE(text().find(row), std::string::npos) << "4 is the second run's";
  run(7, 7);
  EXPECT_EQ(steps(), (Steps{1, 2, 3, 4, 5, 6, 7}));
}

TEST_P(Metrics, AFreshRunStartsTheFileAnew) {
  run(1, 5);
  run(1, 2);
  EXPECT_EQ(steps(), (Steps{1, 2}));
}

TEST_P(Metrics, AStepIsWrittenOnce) {
  MetricsFile file(env_, "m", GetParam(), 1);
  for (const int64_t step : {1, 2, 2, 1, 3}) file.add({.step = step});
  EXPECT_EQ(steps(), (Steps{1, 2, 3}));
}

TEST_P(Metrics, ATornRowIsCutOffWhereverItStops) {
  run(1, 3);
  const std::string whole = text();
  for (size_t size = 0; size <= whole.size(); ++size) {
    write_file(env_, "m", bytes_of(whole.substr(0, size)));
    run(10, 10);
    const Steps found = steps();
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found.back(), 10) << size;
    for (size_t i = 0; i + 1 < found.size(); ++i) EXPECT_EQ(found[i], static_cast<int64_t>(i) + 1);
  }
}

TEST_P(Metrics, ForeignFilesAreRefusedAndLeftAlone) {
  for (const std::string content : {"hello", "hello\n", "a,b\n1,2\n", "{\"text\":\"a document\"}\n", "[1]\n", "\n",
                                    "{\"step\":\"1\"}\n", "step,loss\n1,2\n", "{\"step\":1.5}\n"}) {
    write_file(env_, "m", bytes_of(content));
    try {
      const MetricsFile file(env_, "m", GetParam(), 1);
      ADD_FAILURE() << "took " << content;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_NE(error.text().where.find("m:1"), std::string::npos);
    }
    EXPECT_EQ(text(), content);
  }
}

TEST_P(Metrics, AFullDiskCostsRowsAndNothingElse) {
  run(1, 2);
  MetricsFile file(env_, "m", GetParam(), 3);
  env_.short_write(1, 5);
  file.add({.step = 3});
  EXPECT_EQ(env_.faults_fired(), 1);
  EXPECT_EQ(file.num_left_out(), 1U);
  file.add({.step = 4});
  EXPECT_EQ(steps(), (Steps{1, 2, 4})) << "the torn part of 3 is gone";
}

TEST_P(Metrics, ADiskThatIsFullFromTheStart) {
  env_.fail_call(1, ENOSPC, EnvCall::kWrite);
  MetricsFile file(env_, "m", GetParam(), 1);
  if (GetParam() == MetricsFormat::kJsonLines) file.add({.step = 1});  // has no header to fail
  file.add({.step = 2});
  EXPECT_EQ(env_.faults_fired(), 1);
  EXPECT_EQ(steps(), (Steps{2})) << "with the header that did not fit at first";
}

TEST_P(Metrics, ADeviceThatTakesNothing) {
  MetricsFile file(Env::posix(), "/dev/full", GetParam(), 1);
  for (int64_t step = 1; step <= 100; ++step) file.add({.step = step});
  EXPECT_EQ(file.num_left_out(), 100U);
}

TEST_P(Metrics, MissingFoldersAreKnownAtOnce) {
  EXPECT_THROW(MetricsFile(Env::posix(), "/nowhere/at/all/m", GetParam(), 1), IoError);
}

TEST(MetricsRows, HoldEveryValueExactly) {
  CrashEnv env;
  const StepMetrics metrics{.step = 7,
                            .samples = 3584,
                            .loss = 0.1,
                            .lr = 1e-5,
                            .grad_norm = std::numeric_limits<double>::infinity(),
                            .samples_per_s = 12.5,
                            .exposed_comm_ms = std::nan("")};
  MetricsFile(env, "csv", MetricsFormat::kCsv, 0).add(metrics);
  EXPECT_EQ(read_file(env, "csv", 1 << 20),
            std::string(kHeader) + "7,3584,0.1,1e-05,inf,,12.5,,,,,,nan" + std::string(38, ',') + "\n");
  MetricsFile(env, "jsonl", MetricsFormat::kJsonLines, 0).add(metrics);
  const auto row = nlohmann::json::parse(read_file(env, "jsonl", 1 << 20));
  EXPECT_EQ(row["loss"], 0.1);
  EXPECT_TRUE(row["grad_norm"].is_null()) << "JSON has no infinity";
  EXPECT_FALSE(row.contains("loss_scale")) << "not known";
  EXPECT_EQ(row["step"], 7);
}

}  // namespace
}  // namespace weft
