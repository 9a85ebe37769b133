#include "weft/monitor/csv_scalars.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>

#include "tests/support/temp_dir.h"
#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/write_trouble.h"

namespace weft {
namespace {

class CsvFiles : public testing::Test {
 protected:
  std::string text(const std::string& name = "Train_Samples_lr.csv") { return read_file(env_, "out/" + name, 1 << 20); }
  void write(std::string_view content) {
    env_.make_folders("out");
    write_file(env_, "out/Train_Samples_lr.csv", bytes_of(content));
  }
  static StepScalars at(int64_t x, double value) {
    return {.x = x, .values = {{.tag = "Train/Samples/lr", .value = value}}};
  }
  void run(int64_t first, int64_t last, double value, bool resumed) {
    CsvScalars csv(env_, "out", resumed);
    for (int64_t x = first; x <= last; ++x) csv.add(at(x, value));
    EXPECT_EQ(csv.num_left_out(), 0U);
  }

  CrashEnv env_;
};

TEST_F(CsvFiles, OneATagAsDeepSpeedNamesThem) {
  CsvScalars csv(env_, "out", false);
  csv.add({.x = 32, .values = {{.tag = "Train/Samples/lr", .value = 0.5}, {.tag = "my loss", .value = std::nan("")}}});
  csv.add({.x = 64, .values = {{.tag = "my loss", .value = -std::numeric_limits<double>::infinity()}}});
  EXPECT_EQ(env_.list("out"), (std::vector<std::string>{"Train_Samples_lr.csv", "my_loss.csv"}));
  EXPECT_EQ(text(), "step,lr\n32,0.5\n");
  EXPECT_EQ(text("my_loss.csv"), "step,my loss\n32,nan\n64,-inf\n");
}

TEST_F(CsvFiles, AFreshRunGoesBelowTheOldOne) {
  run(1, 2, 1, false);
  run(1, 1, 2, false);
  EXPECT_EQ(text(), "step,lr\n1,1\n2,1\nstep,lr\n1,2\n");
}

TEST_F(CsvFiles, AResumedRunGoesOnWithoutRepeatingRows) {
  run(1, 4, 1, false);
  run(3, 5, 2, true);
  EXPECT_EQ(text(), "step,lr\n1,1\n2,1\n3,2\n4,2\n5,2\n");
}

TEST_F(CsvFiles, AResumedRunCutsOnlyTheLastOfSeveral) {
  run(1, 9, 1, false);
  run(1, 3, 2, false);
  const std::string first = text().substr(0, text().rfind("step,lr"));
  run(2, 2, 3, true);
  EXPECT_EQ(text(), first + "step,lr\n1,2\n2,3\n");
}

TEST_F(CsvFiles, AResumedRunWithoutAFileMakesOne) {
  run(7, 7, 1, true);
  EXPECT_EQ(text(), "step,lr\n7,1\n");
}

TEST_F(CsvFiles, OfDeepSpeedItselfAreGoneOnWith) {
  write("step,lr\r\n1,0.5\r\n2,0.5\r\n");
  run(2, 2, 1, true);
  EXPECT_EQ(text(), "step,lr\r\n1,0.5\r\n2,1\n");
}

TEST_F(CsvFiles, ATornRowIsCutOffWhereverItStops) {
  run(10, 12, 1, false);
  const std::string whole = text();
  for (size_t size = 0; size <= whole.size(); ++size) {
    write(whole.substr(0, size));
    run(20, 20, 2, true);
    const std::string kept = whole.substr(0, whole.substr(0, size).rfind('\n') + 1);
    EXPECT_EQ(text(), (kept.empty() ? "step,lr\n" : kept) + "20,2\n") << size;
  }
}

TEST_F(CsvFiles, ForeignFilesAreLeftAlone) {
  for (const std::string content : {"hello", "hello\n", "a,b\n1,2\n", "step,lr\n1,2,3\n", "step,lr\nx,1\n", "\n"}) {
    write(content);
    CsvScalars csv(env_, "out", false);
    csv.add(at(1, 1));
    csv.add(at(2, 1));
    EXPECT_EQ(csv.num_left_out(), 2U);
    EXPECT_EQ(text(), content);
  }
}

TEST_F(CsvFiles, AFullDiskCostsRowsAndNothingElse) {
  CsvScalars csv(env_, "out", false);
  env_.short_write(1, 9);
  csv.add(at(1, 1));
  csv.add(at(2, 1));
  env_.fail_call(1, ENOSPC, EnvCall::kWrite);
  csv.add(at(3, 1));
  csv.add(at(4, 1));
  EXPECT_EQ(env_.faults_fired(), 2);
  EXPECT_EQ(csv.num_left_out(), 2U);
  EXPECT_EQ(text(), "step,lr\n2,1\n4,1\n") << "with the header that did not fit at first";
}

// Thirty curves are thirty files.
TEST_F(CsvFiles, AFullDiskIsSaidOnce) {
  forget_write_trouble();
  testing::internal::CaptureStderr();
  CsvScalars csv(Env::posix(), test::TempDir().path().string() + "/gone", false);
  std::filesystem::remove_all(csv.folder());
  StepScalars all{.x = 1};
  for (int i = 0; i < 30; ++i) all.values.push_back({.tag = cat("Train/", i), .value = 1});
  csv.add(all);
  AppendFile(Env::posix().open("/dev/full", OpenMode::kReadWrite), 0).put("another file\n");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(csv.num_left_out(), 30U);
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  EXPECT_NE(said.find("training goes on"), std::string::npos) << said;
}

TEST_F(CsvFiles, AFolderThatCannotBeMadeIsKnownAtOnce) {
  write_file(env_, "out", bytes_of("a file"));
  EXPECT_THROW(CsvScalars(env_, "out", false), IoError);
}

}  // namespace
}  // namespace weft
