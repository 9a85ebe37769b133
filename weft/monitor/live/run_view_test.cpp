#include "weft/monitor/live/run_view.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/live/state_json.h"

namespace weft {
namespace {

constexpr double kStart = 1'763'311'200;

class View : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text, std::ios::openmode mode = std::ios::trunc) {
    std::ofstream(dir_ / name, std::ios::binary | mode) << text;
    const double at_s = now_s_ + files_ahead_s_;
    const timespec at{.tv_sec = static_cast<time_t>(at_s), .tv_nsec = 0};
    const timespec both[] = {at, at};
    ASSERT_EQ(::utimensat(AT_FDCWD, (dir_ / name).c_str(), both, 0), 0);
  }
  // Steps of 200 ms, a fifth of which is spent waiting.
  void rows(int64_t first, int64_t last, const std::string& loss = "2.5") {
    std::string text;
    for (int64_t step = first; step <= last; ++step)
      text +=
          cat("{\"step\":", step, ",\"loss\":", loss,
              ",\"step_ms\":200,\"forward_ms\":80,\"backward_ms\":120,\"exposed_comm_ms\":40,\"data_ms\":0,\"unix_s\":",
              kStart + 0.2 * static_cast<double>(step), "}\n");
    write("metrics.jsonl", text, std::ios::app);
  }
  void running() {
    write("result.json", R"({"schema":1,"name":"r","status":"running","world":2,"device":"cpu","params":5})");
  }
  const LiveState& look() {
    while (view_.refresh()) {
    }
    return view_.state();
  }

  test::TempDir dir_;
  double now_s_ = kStart + 2;
  double files_ahead_s_ = 0;  // the clock of who keeps the files, to ours
  RunView view_{Env::posix(), dir_.path().string(), {.host = {.name = "a", .memory_bytes = 1000}, .now_unix_s = [this] {
                                                       return now_s_;
                                                     }}};
};

TEST_F(View, AnEmptyFolderIsWaitedFor) {
  EXPECT_EQ(look().status, "waiting");
  EXPECT_FALSE(look().step);
  EXPECT_TRUE(look().notes.empty());
  EXPECT_EQ(look().name, dir_.path().filename().string());
}

TEST_F(View, ARunUnderWay) {
  running();
  rows(1, 10);
  write("log.txt", "2026-11-16T10:00:00Z [weft rank 0] hello\n");
  const LiveState& state = look();
  EXPECT_EQ(state.status, "running");
  EXPECT_EQ(state.name, "r");
  EXPECT_EQ(state.step, 10);
  EXPECT_EQ(state.num_rows, 10);
  EXPECT_EQ(state.latest.get("loss"), 2.5);
  EXPECT_EQ(state.facts.get("params"), 5);
  EXPECT_EQ(state.log.size(), 1u);
  EXPECT_FALSE(state.stalled);
  EXPECT_EQ(view_.series().bins().size(), 10u);
}

TEST_F(View, NewRowsChangeTheVersionAndNothingElseDoes) {
  running();
  rows(1, 3);
  const int64_t seen = look().version;
  now_s_ += 1;
  EXPECT_EQ(look().version, seen);
  rows(4, 4);
  EXPECT_GT(look().version, seen);
  EXPECT_EQ(look().step, 4);
}

TEST_F(View, AResumedRunTakesRowsBack) {
  running();
  rows(1, 10, "9");
  const int64_t epoch = look().epoch;
  write("metrics.jsonl", "");
  rows(1, 5, "9");
  rows(6, 12, "3");
  const LiveState& state = look();
  EXPECT_GT(state.epoch, epoch);
  EXPECT_EQ(state.step, 12);
  EXPECT_EQ(state.num_rows, 12);
  EXPECT_EQ(view_.series().bins()[6].columns[series_column("loss")].mean(), 3);
}

TEST_F(View, LinesThatAreNoRowsAreCountedAndLeftOut) {
  rows(1, 2);
  write("metrics.jsonl", "garbage\n[1]\n{\"loss\":1}\n{\"step\":-1}\n{\"step\":1e300}\n\n", std::ios::app);
  rows(3, 3);
  write("metrics.jsonl", "{\"step\":4,\"lo", std::ios::app);
  const LiveState& state = look();
  EXPECT_EQ(state.step, 3);
  EXPECT_EQ(state.status, "unknown");
  ASSERT_EQ(state.notes.size(), 1u);
  EXPECT_NE(state.notes[0].find("5"), std::string::npos) << state.notes[0];
}

TEST_F(View, LossesThatAreNoNumbersAreCounted) {
  rows(1, 2, "null");
  EXPECT_EQ(look().num_bad_losses, 2);
  EXPECT_TRUE(std::isnan(*look().latest.get("loss")));
}

TEST_F(View, ARunThatStandsStillIsSaid) {
  running();
  rows(1, 10);
  now_s_ = kStart + 2 + 15;
  EXPECT_FALSE(look().stalled) << "a save may take that long";
  now_s_ = kStart + 2 + 300;
  EXPECT_TRUE(look().stalled);
  EXPECT_NE(look().status_note.find("stood still since 20"), std::string::npos) << look().status_note;
  EXPECT_NE(look().status_note.find("after step 10"), std::string::npos);
  rows(1500, 1510);
  EXPECT_FALSE(look().stalled);
}

// The rows say a time that is hours off, or the files do, or both: neither makes a run stand still, or hides that it does.
TEST_F(View, ClocksThatAreHoursOffChangeNothing) {
  constexpr double kHours = 5 * 3600;
  for (const double rows_off_s : {-kHours, 0.0, kHours}) {
    for (const double files_off_s : {-kHours, 0.0, kHours}) {
      SCOPED_TRACE(cat(rows_off_s, " ", files_off_s));
      now_s_ = kStart + rows_off_s;
      files_ahead_s_ = files_off_s;
      std::filesystem::remove(dir_ / "metrics.jsonl");
      RunView view(Env::posix(), dir_.path().string(), {.now_unix_s = [this] { return now_s_; }});
      running();
      for (int64_t step = 1; step <= 5; ++step) {
        now_s_ += 10;
        write("ranks.json", cat(R"({"world":1,"step":)", step, R"(,"unix_s":1,"ranks":[{"rank":0,"step_ms":200}]})"));
        rows(step, step);
        view.refresh();
        if (step == 1) continue;  // the first look knows no more than the time of the file
        EXPECT_FALSE(view.state().stalled) << view.state().status_note;
        EXPECT_EQ(view.state().ranks.at(0).health, RankHealth::kGood) << view.state().ranks.at(0).why;
        EXPECT_NEAR(view.state().progress_unix_s, now_s_, 10);
      }
      now_s_ += 300;
      view.refresh();
      EXPECT_TRUE(view.state().stalled);
      EXPECT_EQ(view.state().ranks.at(0).health, RankHealth::kSilent);
    }
  }
}

TEST_F(View, ARunOfLongStepsIsGivenTime) {
  running();
  write("metrics.jsonl", cat("{\"step\":1,\"step_ms\":60000,\"unix_s\":", kStart, "}\n"));
  now_s_ = kStart + 300;
  EXPECT_FALSE(look().stalled);
  now_s_ = kStart + 700;
  EXPECT_TRUE(look().stalled);
}

// A reader is told when there is news; a sentence that grows old by itself would be told once and stay.
TEST_F(View, WhatIsSaidOfAStandstillStaysTrue) {
  running();
  rows(1, 10);
  write("ranks.json", R"({"schema":1,"step":10,"world":1,"ranks":[{"rank":0,"host":"a","step_ms":200}]})");
  look();
  now_s_ += 100;
  const LiveState first = look();
  EXPECT_EQ(first.status_note,
            "has stood still since 2025-11-16T16:40:02Z, after step 10; its steps took up to 200 ms");
  EXPECT_EQ(first.ranks.at(0).why, "not heard of since 2025-11-16T16:40:02Z");
  now_s_ += 100;
  EXPECT_EQ(look().status_note, first.status_note);
  EXPECT_EQ(look().ranks.at(0).why, first.ranks.at(0).why);
  EXPECT_EQ(look().version, first.version);
}

TEST_F(View, ANoteThatChangedIsNews) {
  running();
  rows(1, 3);
  const auto slow = [](const char* where) {
    return cat(R"({"schema":1,"step":3,"world":1,"ranks":[],"slow":[{"rank":-1,"phase":"link","where":")", where,
               R"(","percent":null}]})");
  };
  write("ranks.json", slow("a"));
  const int64_t seen = look().version;
  EXPECT_EQ(look().version, seen);
  write("ranks.json", slow("b"));
  EXPECT_GT(look().version, seen);
}

// So that a page which finds another run at its address does not draw that one's rows behind its own.
TEST_F(View, EveryReaderHasAnEpochOfItsOwn) {
  EXPECT_GT(view_.state().epoch, 1'700'000'000'000) << "milliseconds since 1970";
  EXPECT_LT(view_.state().epoch, int64_t{1} << 53) << "JavaScript counts no further";
  rows(1, 3);
  const int64_t epoch = look().epoch;
  EXPECT_EQ(look().epoch, epoch);
  EXPECT_NE(parse_state(state_json(look())).value().epoch, 0);
}

TEST_F(View, AnEndedRunDoesNotStandStill) {
  rows(1, 10);
  write("result.json", R"({"schema":1,"status":"finished"})");
  now_s_ = kStart + 1e6;
  EXPECT_FALSE(look().stalled);
  EXPECT_EQ(look().status, "finished");
}

TEST_F(View, HalfWrittenAndNewerFilesAreSaid) {
  running();
  rows(1, 1);
  look();
  write("result.json", "{\"schema\":1,\"sta");
  EXPECT_EQ(look().status, "running") << "what was known stays";
  ASSERT_EQ(look().notes.size(), 1u);
  write("result.json", R"({"schema":2,"status":"finished"})");
  EXPECT_EQ(look().status, "finished");
  EXPECT_NE(look().notes.at(0).find("schema is 2"), std::string::npos);
}

constexpr const char* kRanks = R"({"schema":1,"step":10,"unix_s":1763311202,"world":4,"ranks":[
  {"rank":1,"host":"a","step_ms":200,"forward_ms":80,"backward_ms":120,"exposed_comm_ms":10,"data_ms":0,"rss_bytes":300},
  {"rank":0,"host":"a","step_ms":200,"forward_ms":80,"backward_ms":120,"exposed_comm_ms":80,"data_ms":0,"rss_bytes":400},
  {"rank":0,"host":"b","step_ms":999}, {"host":"x"}, 7,
  {"rank":2,"host":"b","step_ms":200,"forward_ms":80,"backward_ms":120,"exposed_comm_ms":30,"data_ms":0,"rss_bytes":900}],
  "slow":[{"rank":1,"phase":"backward","where":"blocks.3","percent":12.5,"ms":14.0,"since_step":80},{"rank":-1,"phase":"link","percent":30}]})";

TEST_F(View, RanksAreJudged) {
  running();
  rows(1, 10);
  write("ranks.json", kRanks);
  const LiveState& state = look();
  ASSERT_EQ(state.ranks.size(), 4u) << "each once, and the missing one";
  EXPECT_EQ(state.ranks[0].health, RankHealth::kWaiting);
  EXPECT_EQ(state.ranks[0].host, "a");
  EXPECT_EQ(state.ranks[1].health, RankHealth::kSlow);
  EXPECT_EQ(state.ranks[1].why, "12.5 % slower in backward (blocks.3) since step 80");
  EXPECT_EQ(state.ranks[2].health, RankHealth::kGood);
  EXPECT_EQ(state.ranks[3].health, RankHealth::kSilent);
  ASSERT_EQ(state.slow.size(), 2u);
  EXPECT_EQ(state.slow[0].rank, -1) << "a slow link is nobody's";
  look();
  EXPECT_EQ(look().ranks.size(), 4u) << "the missing one is added once";
  now_s_ += 100;
  EXPECT_EQ(look().ranks[2].health, RankHealth::kSilent);
  std::filesystem::remove(dir_ / "ranks.json");
  EXPECT_TRUE(look().ranks.empty());
}

TEST_F(View, FiguresAreJudgedByTheirTargets) {
  running();
  rows(1, 10);
  write("ranks.json", kRanks);
  const auto& verdicts = look().verdicts;
  ASSERT_EQ(verdicts.size(), 3u);
  EXPECT_NEAR(*verdicts[0].share, 0.8, 1e-9) << "of 200 ms, 40 are spent waiting in the mean";
  EXPECT_EQ(verdicts[0].judgement(), Judgement::kBad);
  EXPECT_NEAR(*verdicts[1].share, 0.25, 1e-9);
  EXPECT_EQ(verdicts[1].judgement(), Judgement::kBad);
  EXPECT_EQ(verdicts[2].judgement(), Judgement::kUnknown) << "two hosts, and the run does not say how large they are";
  write("result.json", R"({"schema":1,"status":"running","world":4,"host_memory_bytes":1000,"threads":2})");
  EXPECT_NEAR(*look().verdicts[2].share, 0.9, 1e-9) << "of the fullest host";
  EXPECT_EQ(look().verdicts[2].judgement(), Judgement::kBad);
  write("ranks.json",
        R"({"schema":1,"world":1,"ranks":[{"rank":0,"host":"a","step_ms":1,"cpu_percent":190,"rss_bytes":1}]})");
  EXPECT_NEAR(*look().verdicts[0].share, 0.95, 1e-9) << "of its two threads";
  EXPECT_EQ(look().verdicts[2].judgement(), Judgement::kGood);
  write("ranks.json",
        R"({"schema":1,"world":1,"ranks":[{"rank":0,"host":"a","step_ms":1,"rss_bytes":1,"peak_rss_bytes":900}]})");
  EXPECT_NEAR(*look().verdicts[2].share, 0.9, 1e-9) << "the most that was resident, as in the report";
  write("ranks.json", R"({"schema":1,"world":2,"ranks":[
    {"rank":0,"host":"a","step_ms":1,"peak_rss_bytes":900,"host_bytes":500},
    {"rank":1,"host":"a","step_ms":1,"peak_rss_bytes":900,"host_bytes":50}]})");
  EXPECT_NEAR(*look().verdicts[2].share, 0.55, 1e-9) << "what both map stands once";
}

TEST_F(View, WhatIsNotRecordedIsNotJudged) {
  write("metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  for (const auto& verdict : look().verdicts) EXPECT_EQ(verdict.judgement(), Judgement::kUnknown) << verdict.id;
}

TEST_F(View, TheLogKeepsItsLastLines) {
  std::string text;
  for (int i = 1; i <= 1000; ++i) text += cat("line ", i, "\n");
  write("log.txt", text + std::string(5000, 'x') + "\n");
  const LiveState& state = look();
  ASSERT_EQ(state.log.size(), 200u);
  EXPECT_EQ(state.log[198], "line 1000");
  EXPECT_LT(state.log[199].size(), 3000u);
}

TEST_F(View, AStateSurvivesItsJson) {
  running();
  rows(1, 10);
  write("ranks.json", kRanks);
  write("log.txt", "plain\n[WARN] \xff careful\n");
  const LiveState& state = look();
  const std::string text = state_json(state);
  const LiveState back = parse_state(text).value();
  EXPECT_EQ(state_json(back), text);
  EXPECT_EQ(back.step, 10);
  EXPECT_EQ(back.ranks[1].health, RankHealth::kSlow);
  EXPECT_FALSE(parse_state("{}").ok());
  EXPECT_FALSE(parse_state("not json").ok());
}

TEST_F(View, TheSeriesComesFromAStepOn) {
  rows(1, 10);
  look();
  const std::string text = series_json(view_.series(), 9, 3);
  EXPECT_EQ(text.substr(0, text.find(",\"columns\"")), R"({"schema":1,"epoch":3,"stride":1,"step":[9,10])");
  EXPECT_NE(text.find(R"("loss":{"mean":[2.5,2.5]})"), std::string::npos) << text;
  EXPECT_EQ(text.find("\"min\""), std::string::npos) << "one step has no lowest and highest";
  EXPECT_NE(series_json(view_.series(), 1000, 3).find("\"step\":[]"), std::string::npos);
}

TEST(FindRunFolder, ARunOrTheNewestOfThoseUnderIt) {
  test::TempDir dir;
  for (const char* name : {"old", "new", "empty"}) std::filesystem::create_directory(dir / name);
  for (const char* name : {"old", "new"}) std::ofstream(dir / (std::string(name) + "/metrics.jsonl")) << "\n";
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(dir / "old/metrics.jsonl", now - std::chrono::hours(1));
  Env& env = Env::posix();
  EXPECT_EQ(find_run_folder(env, dir / "old"), dir / "old");
  EXPECT_EQ(find_run_folder(env, dir.path().string()), dir / "new");
  EXPECT_THROW(find_run_folder(env, dir / "empty"), Error);
  EXPECT_THROW(find_run_folder(env, dir / "nowhere"), Error);
}

}  // namespace
}  // namespace weft
