#include "weft/engine/run_monitor.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/ranks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/text.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/monitor/live/live_server.h"

namespace weft {
namespace {

using test::has;

// A loop as a user writes it.
class OwnLoop : public testing::Test {
 protected:
  void train(const std::string& more, RunMonitorOptions options, bool closes = true) {
    Model model;
    Engine engine(model.tensors(), settings(1, 1, more), world(fresh_run(), 0, 1));
    options.folder = folder_.path().string();
    options.count_flops_every = 0;
    RunMonitor monitor(engine, options);
    for (int64_t step = 0; step < 6; ++step) {
      const at::Tensor loss = model.loss(step);
      engine.backward(loss);
      engine.step();
      monitor.step_done({.loss = loss.item<double>(), .tokens = 40});
    }
    if (closes) monitor.close();
  }
  bool is_there(const std::string& name) const { return std::filesystem::exists(folder_ / name); }
  std::string text(const std::string& name) const { return read_file(Env::posix(), folder_ / name, 1 << 24); }

  test::TempDir folder_;
};

TEST_F(OwnLoop, LeavesAReport) {
  train("", {});
  EXPECT_TRUE(has(text("result.json"), "\"status\": \"finished\"")) << text("result.json");
  EXPECT_TRUE(has(text("result.json"), "\"steps\": 6")) << text("result.json");
  EXPECT_TRUE(has(text("result.json"), "\"tokens_per_step\": 40"));
  EXPECT_TRUE(has(text("report.html"), "<!doctype html>") || has(text("report.html"), "<!DOCTYPE html>"));
}

TEST_F(OwnLoop, ThatBreaksOffLeavesARunThatRuns) {
  train("", {}, false);
  EXPECT_TRUE(has(text("result.json"), "\"status\": \"running\""));
  EXPECT_FALSE(is_there("report.html"));
}

TEST_F(OwnLoop, WhoWritesTheReportIsAskedOnce) {
  train("", {.report = false});
  EXPECT_TRUE(is_there("metrics.jsonl"));
  EXPECT_FALSE(is_there("result.json") || is_there("report.html"));
}

TEST_F(OwnLoop, ANormThatWasComputedIsTold) {
  train(", \"gradient_clipping\": 1.0", {});
  EXPECT_TRUE(has(text("metrics.jsonl"), "\"grad_norm\":"));
  train(", \"gradient_clipping\": 0", {});
  EXPECT_FALSE(has(text("metrics.jsonl"), "\"grad_norm\":")) << "nobody needed it";
}

TEST_F(OwnLoop, SkippedStepsAreCountedInEachNarrowType) {
  for (const char* type : {"fp16", "bf16"}) {
    train(cat(", \"", type, "\": {\"enabled\": true}"), {});
    EXPECT_TRUE(has(text("metrics.jsonl"), "\"skipped_steps\":")) << type;
  }
}

TEST_F(OwnLoop, APortInUseIsSaidAndATokenIsNotLogged) {
  const test::TempDir other;
  const LiveServer first(Env::posix(), other.path().string(), {.port = 0});
  Model model;
  const std::string dashboard =
      cat(", \"weft\": {\"dashboard\": {\"port\": ", first.port(), ", \"token\": \"a-secret-of-mine\"}}");
  Engine engine(model.tensors(), settings(1, 1, dashboard), world(fresh_run(), 0, 1));
  testing::internal::CaptureStderr();
  const RunMonitor monitor(engine, {.folder = folder_.path().string(), .count_flops_every = 0});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(has(said, cat("port ", first.port(), " is in use: the live page is on port "))) << said;
  EXPECT_TRUE(has(said, "the run can be watched at http://127.0.0.1:")) << said;
  EXPECT_FALSE(has(said, "a-secret-of-mine"));
  EXPECT_FALSE(has(text("log.txt"), "a-secret-of-mine"));
  EXPECT_TRUE(has(text("dashboard.json"), "?token=a-secret-of-mine"));
  struct stat info{};
  ASSERT_EQ(::stat((folder_ / "dashboard.json").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U) << "its owner's alone";
}

}  // namespace
}  // namespace weft
