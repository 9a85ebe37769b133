#include "weft/monitor/run_files.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "tests/support/temp_dir.h"
#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/run_summary.h"

namespace weft {
namespace {

// The files of a run on a disk in memory.
class RunFolder : public testing::Test {
 protected:
  RunFolder() { env_.make_folders("run"); }
  void put(const std::string& name, const std::string& text) { write_file(env_, "run/" + name, bytes_of(text)); }
  RunFiles load(const RunLimits& limits = {}) { return load_run(env_, "run", limits); }
  static bool says(const RunFiles& run, std::string_view piece) {
    for (const auto& note : run.notes) {
      if (note.find(piece) != std::string::npos) return true;
    }
    return false;
  }

  CrashEnv env_;
};

TEST_F(RunFolder, ThereIsNoSuchFolder) {
  EXPECT_THROW(load_run(env_, "elsewhere"), Error);
  put("file", "x");
  EXPECT_THROW(load_run(env_, "run/file"), Error);
}

TEST_F(RunFolder, AnEmptyFolderHasNothingAndNothingToSay) {
  const RunFiles run = load();
  EXPECT_TRUE(run.rows.empty() && !run.result && !run.ranks && !run.settings && !run.timeline && run.notes.empty());
  EXPECT_EQ(run.name(), "run");
  EXPECT_FALSE(is_run_folder(env_, "run"));
  put("metrics.jsonl", "");
  EXPECT_TRUE(is_run_folder(env_, "run"));
}

TEST_F(RunFolder, RowsAreReadInOrderAndOfAStepRunTwiceTheLaterCounts) {
  put("metrics.jsonl",
      "{\"step\":1,\"loss\":5,\"step_ms\":10}\n{\"step\":2,\"loss\":null}\n{\"step\":3}\n{\"step\":2,\"loss\":4,\"data_"
      "ms\":0.5}\n");
  const RunFiles run = load();
  ASSERT_EQ(run.rows.size(), 3U);
  EXPECT_EQ(run.rows[0].step_ms, 10);
  EXPECT_EQ(run.rows[1].loss, 4);
  EXPECT_EQ(run.rows[1].data_ms, 0.5);
  EXPECT_TRUE(run.rows[1].has_loss);
  EXPECT_FALSE(run.rows[2].has_loss);
  EXPECT_TRUE(std::isnan(run.rows[2].loss));
  EXPECT_TRUE(run.notes.empty());
}

TEST_F(RunFolder, ATornLastLineIsLeftOutAndNamed) {
  put("metrics.jsonl", "{\"step\":1,\"loss\":5}\n{\"step\":2,\"lo");
  const RunFiles run = load();
  EXPECT_EQ(run.rows.size(), 1U);
  EXPECT_TRUE(says(run, "torn"));
}

TEST_F(RunFolder, LinesThatAreNoRowsAreCounted) {
  put("metrics.jsonl", "{\"step\":1}\nhello\n[]\n{\"step\":\"x\"}\n{\"step\":1e300}\n\xff\xfe\n{\"step\":2}\n");
  const RunFiles run = load();
  EXPECT_EQ(run.rows.size(), 2U);
  EXPECT_TRUE(says(run, "5 lines are no row"));
}

TEST_F(RunFolder, MoreRowsThanTheLimitAreNotRead) {
  std::string text;
  for (int i = 1; i <= 50; ++i) text += cat("{\"step\":", i, "}\n");
  put("metrics.jsonl", text);
  EXPECT_EQ(load({.rows = 20}).rows.size(), 20U);
  EXPECT_TRUE(says(load({.rows = 20}), "only the first 20 rows"));
}

TEST_F(RunFolder, ALineWithoutEndStopsTheReadingOnly) {
  put("metrics.jsonl", cat("{\"step\":1}\n", std::string(3 << 20, 'x')));
  const RunFiles run = load();
  EXPECT_EQ(run.rows.size(), 1U);
  EXPECT_FALSE(run.notes.empty());
}

TEST_F(RunFolder, HostileFilesAreNamedAndTheRestIsRead) {
  const std::string deep(200'000, '[');
  put("result.json", "{\"status\": \"running\"");
  put("ranks.json", "[]");
  put("settings.json", deep);
  put("timeline.json", "\x00\x01garbage");
  put("metrics.jsonl", "{\"step\":7,\"loss\":2}\n" + deep + "\n");
  const RunFiles run = load();
  EXPECT_FALSE(run.result || run.ranks || run.settings || run.timeline);
  EXPECT_EQ(run.rows.size(), 1U);
  for (const char* name : {"result.json", "ranks.json", "settings.json", "timeline.json", "metrics.jsonl"})
    EXPECT_TRUE(says(run, name)) << name;
}

TEST_F(RunFolder, FilesAboveTheLimitAreNotRead) {
  put("result.json", cat("{\"status\":\"finished\",\"name\":\"", std::string(5000, 'x'), "\"}"));
  const RunFiles run = load({.json_bytes = 1000});
  EXPECT_FALSE(run.result);
  EXPECT_TRUE(says(run, "result.json"));
}

TEST_F(RunFolder, AFolderInAFilesPlaceIsNoFile) {
  for (const char* name : {"result.json", "metrics.jsonl", "log.txt"}) env_.make_folders(cat("run/", name));
  const RunFiles run = load();
  EXPECT_FALSE(run.result);
  EXPECT_TRUE(says(run, "not a file"));
}

TEST_F(RunFolder, ANewerSchemaIsReadAsFarAsItGoes) {
  put("result.json", R"({"schema": 7, "status": "finished", "world": 2, "loss": [3, null]})");
  const RunFiles run = load();
  ASSERT_TRUE(run.result);
  EXPECT_EQ(run.result->world, 2);
  EXPECT_TRUE(says(run, "schema 7"));
  EXPECT_EQ(run.rows.size(), 2U);  // without metrics.jsonl the losses are those of result.json
}

TEST_F(RunFolder, WrongTypesAreNotKnown) {
  put("result.json", R"({"status": 3, "world": "two", "params": 1e300, "ledger": {"a": "b", "c": 5}, "loss": "no"})");
  put("ranks.json", R"({"ranks": [{"rank": -4}, {"rank": 1, "step_ms": "slow"}, 5], "slow": [{"rank": "x"}, 5]})");
  put("settings.json",
      R"({"settings": [{"path": "a", "value": [[1]]}, {"value": 2}, {"path": "b", "value": {"x": 1}}]})");
  const RunFiles run = load();
  ASSERT_TRUE(run.result && run.ranks && run.settings);
  EXPECT_EQ(run.result->world, 0);
  EXPECT_EQ(run.result->params, 0);
  EXPECT_EQ(run.result->ledger.size(), 1U);
  ASSERT_EQ(run.ranks->ranks.size(), 1U);
  EXPECT_TRUE(std::isnan(run.ranks->ranks[0].step_ms));
  EXPECT_TRUE(run.ranks->slow.empty());
  ASSERT_EQ(run.settings->settings.size(), 2U);
  EXPECT_EQ(run.settings->settings[1].value, "{\"x\":1}");
}

TEST_F(RunFolder, SpansThatLieNowhereAreLeftOut) {
  put("timeline.json", R"({"steps": [{"step": 1, "start_ns": 0, "end_ns": 10}, {"step": 2, "start_ns": 5, "end_ns": 5}],
    "rows": [{"rank": 0, "track": "compute"}],
    "spans": [[0, 1, 4, "f", "forward", -1, -1], [1, 1, 4, "f", "forward"], [0, 4, 1, "f", "forward"], [-1, 1, 2, "f", "x"],
              [0, 1], 7, [0, 1e300, 1e301, "f", "x"], [0, "a", 2, "f", "x"]]})");
  const RunFiles run = load();
  ASSERT_TRUE(run.timeline);
  EXPECT_EQ(run.timeline->steps.size(), 1U);
  EXPECT_EQ(run.timeline->spans.size(), 1U);
}

TEST_F(RunFolder, FlopsAreReadAsFarAsTheyAreSound) {
  put("flops.json", R"({"schema": 1, "step": 3, "total": 9, "elsewhere": [], "modules": [
    {"name": "", "type": "Net", "depth": 0, "parameters": 5, "forward": 3, "backward": 6, "recomputed": 0, "ms": 0.5},
    {"name": 7, "depth": 1e300, "forward": "many"}, 8]})");
  const RunFiles run = load({.modules = 2});
  ASSERT_TRUE(run.flops);
  ASSERT_EQ(run.flops->modules.size(), 2U);
  EXPECT_EQ(run.flops->modules[0].type, "Net");
  EXPECT_EQ(run.flops->modules[0].backward, 6);
  EXPECT_EQ(run.flops->modules[1].depth, 0);
  EXPECT_TRUE(std::isnan(run.flops->modules[1].forward) && std::isnan(run.flops->elsewhere.forward));
}

TEST_F(RunFolder, TheLogsLastLinesAreKept) {
  std::string text;
  for (int i = 0; i < 9000; ++i) text += cat("line ", i, "\n");
  put("log.txt", text);
  const RunFiles run = load();
  ASSERT_EQ(run.last_lines.size(), 12U);
  EXPECT_EQ(run.last_lines.back(), "line 8999");
}

TEST_F(RunFolder, ARunThatStandsStillIsLost) {
  put("result.json", R"({"status": "running"})");
  put("metrics.jsonl",
      "{\"step\":1,\"step_ms\":100,\"unix_s\":1000}\n{\"step\":2,\"step_ms\":100,\"unix_s\":1000.1}\n");
  RunFiles run = load();
  EXPECT_EQ(summarize(run, 5000).state, RunEnd::kRunning) << "a disk without times says nothing";
  run.written_unix_s = 1000.2;
  EXPECT_EQ(summarize(run, 1010).state, RunEnd::kRunning);
  EXPECT_EQ(summarize(run, 5000).state, RunEnd::kLost);
  EXPECT_EQ(summarize(run).state, RunEnd::kRunning);
  EXPECT_EQ(summarize(run, 5000).last_step, 2);
}

// The run's own clock is hours off, either way: only that of the file system here counts.
TEST(RunSummary, AWritersClockMakesNoRunLost) {
  const test::TempDir folder;
  const double now_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  write_file(Env::posix(), folder / "result.json", bytes_of(R"({"status": "running"})"));
  for (const double hours : {-7.0, 7.0}) {
    const double theirs_s = now_s + hours * 3600;
    write_file(Env::posix(), folder / "ranks.json", bytes_of(cat("{\"unix_s\":", theirs_s, "}")));
    write_file(Env::posix(), folder / "metrics.jsonl",
               bytes_of(cat("{\"step\":1,\"step_ms\":100,\"unix_s\":", theirs_s, "}\n")));
    const RunFiles run = load_run(Env::posix(), folder.path().string());
    EXPECT_EQ(summarize(run, now_s + 1).state, RunEnd::kRunning) << hours;
    EXPECT_EQ(summarize(run, now_s + 3000).state, RunEnd::kLost) << hours;
  }
}

// Waits lie inside the parts; taken out of them, all still add up to the step and its save.
TEST(RunSummary, PartsAddUpToTheStep) {
  RunRow row{.step = 1};
  EXPECT_FALSE(parts_of(row));
  row.step_ms = 100, row.data_ms = 5, row.forward_ms = 30, row.backward_ms = 40, row.optimizer_ms = 20;
  row.exposed_comm_ms = 15, row.checkpoint_ms = 7;
  const auto parts = parts_of(row);
  ASSERT_TRUE(parts);
  EXPECT_EQ((*parts)[static_cast<size_t>(StepPart::kExposedComm)], 15);
  EXPECT_EQ((*parts)[static_cast<size_t>(StepPart::kOther)], 0);      // 5 of it, all of which were waits
  EXPECT_EQ((*parts)[static_cast<size_t>(StepPart::kBackward)], 30);  // the other 10
  double sum = 0;
  for (const double part : *parts) sum += part;
  EXPECT_EQ(sum, 107);
}

TEST(RunSummary, OverlapIsMeasuredOnTheTimeline) {
  RunFiles run;
  run.timeline = RunTimeline{.steps = {{1, 0, 100e6}},
                             .rows = {{0, "compute"}, {0, "reduce"}, {0, "exposed wait"}},
                             .spans = {{0, 0, 60e6, "b", "backward"},
                                       {1, 20e6, 90e6, "r", "reduce"},
                                       {1, 30e6, 50e6, "r", "reduce"},  // at the same time: counts once
                                       {2, 50e6, 60e6, "w", "exposed_wait"},
                                       {2, 60e6, 90e6, "w", "exposed_wait"}}};
  const auto overlap = summarize(run).overlap;
  ASSERT_TRUE(overlap);
  EXPECT_NEAR(overlap->compute_ms, 50, 1e-9);
  EXPECT_NEAR(overlap->comm_ms, 70, 1e-9);
  EXPECT_NEAR(overlap->exposed_ms, 40, 1e-9);
  EXPECT_NEAR(overlap->bound_ms(), 70, 1e-9);
  EXPECT_NEAR(overlap->achieved_ms(), 90, 1e-9);
  EXPECT_NEAR(overlap->hidden_share(), 0.6, 1e-9);
  EXPECT_NEAR(overlap->wait_for_ranks_ms, 0, 1e-9);
}

// Ranks also wait for one that is late, and for each other's loss, with nothing on its way: that is no communication.
TEST(RunSummary, AWaitOutsideAllCommunicationIsForARank) {
  RunFiles run;
  run.timeline = RunTimeline{.steps = {{1, 0, 100e6}},
                             .rows = {{0, "compute"}, {0, "reduce"}, {0, "exposed wait"}},
                             .spans = {{0, 0, 60e6, "b", "backward"},
                                       {1, 50e6, 65e6, "r", "reduce"},
                                       {2, 60e6, 70e6, "w", "exposed_wait"},  // 5 ms of it for the reduce
                                       {2, 80e6, 95e6, "wait for ranks", "exposed_wait"}}};
  const auto overlap = summarize(run).overlap;
  ASSERT_TRUE(overlap);
  EXPECT_NEAR(overlap->compute_ms, 60, 1e-9);
  EXPECT_NEAR(overlap->comm_ms, 15, 1e-9);
  EXPECT_NEAR(overlap->exposed_ms, 5, 1e-9);
  EXPECT_NEAR(overlap->wait_for_ranks_ms, 20, 1e-9);
  EXPECT_NEAR(overlap->hidden_share(), 2.0 / 3, 1e-9);
  EXPECT_LE(overlap->achieved_ms(), overlap->serial_ms());
}

TargetMark mark_of(const RunFiles& run, const std::string& key) {
  const auto targets = summarize(run).targets;
  for (const auto& row : targets) {
    if (row.key == key) return row.mark;
  }
  return TargetMark::kNone;
}

RunFiles steady_run(double gpu_percent, double exposed_ms, double peak_bytes) {
  RunFiles run;
  for (int i = 1; i <= 60; ++i) {
    RunRow row{.step = i, .has_loss = true};
    row.loss = 3, row.tokens_per_s = 1000, row.step_ms = 100 + exposed_ms, row.forward_ms = 30, row.backward_ms = 50;
    row.optimizer_ms = 20, row.exposed_comm_ms = exposed_ms, row.gpu_percent = gpu_percent;
    run.rows.push_back(row);
  }
  run.result = RunResult{.status = "finished", .device = "cuda"};
  run.result->peak_device_bytes = peak_bytes;
  run.result->device_memory_bytes = 100;
  return run;
}

TEST(RunSummary, TargetsAreJudgedAtTheirBorders) {
  EXPECT_EQ(mark_of(steady_run(86, 19, 79), "utilisation"), TargetMark::kMet);
  EXPECT_EQ(mark_of(steady_run(85, 19, 79), "utilisation"), TargetMark::kMissed);
  EXPECT_EQ(mark_of(steady_run(kUnknown, 19, 79), "utilisation"), TargetMark::kNotKnown);
  EXPECT_EQ(mark_of(steady_run(86, 19, 79), "communication"), TargetMark::kMet);
  EXPECT_EQ(mark_of(steady_run(86, 21, 79), "communication"), TargetMark::kMissed);
  EXPECT_EQ(mark_of(steady_run(86, 19, 79), "memory"), TargetMark::kMet);
  EXPECT_EQ(mark_of(steady_run(86, 19, 81), "memory"), TargetMark::kMissed);
  EXPECT_EQ(mark_of(steady_run(86, 19, kUnknown), "memory"), TargetMark::kNotKnown);
  EXPECT_EQ(mark_of(steady_run(86, 19, 79), "throughput"), TargetMark::kMet);
  RunFiles slowing = steady_run(86, 19, 79);
  for (size_t i = 50; i < 60; ++i) slowing.rows[i].tokens_per_s = 800;
  EXPECT_EQ(mark_of(slowing, "throughput"), TargetMark::kMissed);
  EXPECT_EQ(mark_of(RunFiles{}, "throughput"), TargetMark::kNotKnown);
}

// After a step its activations are freed: what is resident then says little.
TEST(RunSummary, MemoryIsJudgedByItsPeak) {
  RunFiles run;
  run.result = RunResult{.status = "running", .device = "cpu"};
  run.result->host_memory_bytes = 100;
  run.ranks = RunRanks{.step = 1, .world = 2, .ranks = {{.rank = 0, .host = "a"}, {.rank = 1, .host = "a"}}};
  for (RankRow& rank : run.ranks->ranks) rank.rss_bytes = 10;
  EXPECT_EQ(mark_of(run, "memory"), TargetMark::kMet) << "of a run whose ranks tell no peak";
  for (RankRow& rank : run.ranks->ranks) rank.peak_rss_bytes = 41;
  EXPECT_EQ(mark_of(run, "memory"), TargetMark::kMissed) << "82 of the host's 100";
  for (RankRow& rank : run.ranks->ranks) rank.host_bytes = 39;
  EXPECT_EQ(mark_of(run, "memory"), TargetMark::kMet) << "what both map stands once";
  run.ranks.reset();
  run.rows = {{.step = 1}};
  run.rows[0].rss_bytes = 10, run.rows[0].peak_rss_bytes = 81;
  EXPECT_EQ(summarize(run).peak_bytes, 81);
  EXPECT_EQ(mark_of(run, "memory"), TargetMark::kMissed);
}

TEST(RunSummary, MemoryOfADeviceIsJudgedByItsPeak) {
  RunFiles run = steady_run(86, 19, kUnknown);
  run.rows[30].device_bytes = run.rows[30].device_reserved_bytes = 10;
  run.rows[30].peak_device_bytes = 70;
  EXPECT_EQ(summarize(run).peak_bytes, 70);
  EXPECT_EQ(mark_of(run, "memory"), TargetMark::kMet);
  run.rows[30].peak_device_reserved_bytes = 81;
  EXPECT_EQ(mark_of(run, "memory"), TargetMark::kMissed) << "of what is held from the driver";
}

}  // namespace
}  // namespace weft
