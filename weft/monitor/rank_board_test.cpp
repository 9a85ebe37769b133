#include "weft/monitor/rank_board.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"
#include "weft/monitor/host_name.h"
#include "weft/monitor/machine_use.h"
#include "weft/monitor/test_spans_impl.h"
#include "weft/monitor/timeline.h"
#include "weft/monitor/write_trouble.h"

namespace weft {
namespace {

nlohmann::json read_json(const std::string& path) {
  return nlohmann::json::parse(read_file(Env::posix(), path, 1 << 20));
}

TEST(RankBoard, HasMeansOfTimesAndTheLastLevels) {
  const test::TempDir folder;
  const std::string path = folder / "ranks.json";
  RankBoard board(Env::posix(), path, {"a", "b"});
  board.add(1, std::vector<RankNumbers>{{.step_ms = 1}, {.step_ms = 2}}, {});  // at once, then once a second
  board.add(2, std::vector<RankNumbers>{{.step_ms = 10, .rss_bytes = 5}, {.step_ms = 30}}, {});
  board.add(3, std::vector<RankNumbers>{{.step_ms = 20, .rss_bytes = 7, .peak_rss_bytes = 9}, {.step_ms = 50}},
            {{.rank = 1, .phase = "data", .ms = 9}});
  EXPECT_EQ(read_json(path)["step"], 1);
  board.close();
  const auto got = read_json(path);
  EXPECT_EQ(got["schema"], 1);
  EXPECT_EQ(got["step"], 3);
  EXPECT_EQ(got["world"], 2);
  EXPECT_EQ(got["ranks"][0]["step_ms"], 15);
  EXPECT_EQ(got["ranks"][1]["step_ms"], 40);
  EXPECT_EQ(got["ranks"][1]["host"], "b");
  EXPECT_EQ(got["ranks"][0]["rss_bytes"], 7);
  EXPECT_EQ(got["ranks"][0]["peak_rss_bytes"], 9);
  EXPECT_FALSE(got["ranks"][0].contains("peak_device_bytes")) << "there is no device";
  EXPECT_FALSE(got["ranks"][0].contains("gpu_percent"));
  EXPECT_EQ(got["slow"][0]["rank"], 1);
  EXPECT_EQ(got["slow"][0]["phase"], "data");
}

TEST(RankBoard, AFolderThatIsGoneCostsNothingButAWarning) {
  forget_write_trouble();
  testing::internal::CaptureStderr();
  RankBoard board(Env::posix(), "/no/such/folder/ranks.json", {});
  for (int64_t step = 1; step <= 3; ++step) {
    board.add(step, std::vector<RankNumbers>(2), {});
    board.close();
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(Timeline, JoinsTheLastStepsOfAllRanksOnOneClock) {
  LateSteps late;
  for (int64_t step = 1; step <= 5; ++step) {
    const int64_t at = 1000 * step;
    late.add(std::vector<SpanEvent>{span_of(SpanCategory::kForward, at, at + 400),
                                    span_of(SpanCategory::kReduce, at + 300, at + 600),
                                    span_of(SpanCategory::kStep, at, at + 1000, step)});
  }
  const auto got = nlohmann::json::parse(timeline_json({late.text(), late.text(), "{torn"}, {0, -50, 0}));
  ASSERT_EQ(got["steps"].size(), LateSteps::kSteps);
  EXPECT_EQ(got["steps"][0]["step"], 4);
  EXPECT_EQ(got["steps"][0]["start_ns"], 0);
  ASSERT_EQ(got["rows"].size(), 4U);
  EXPECT_EQ(got["rows"][3]["rank"], 1);
  EXPECT_EQ(got["rows"][3]["track"], "reduce");
  EXPECT_EQ(got["spans"].size(), 8U);
  EXPECT_EQ(got["spans"][0], nlohmann::json::parse(R"([0, 0, 400, "x", "forward", -1, -1])"));
  EXPECT_EQ(got["spans"][4][1], -50) << "the other host's clock is 50 ns ahead";
  EXPECT_EQ(timeline_json({"{}", ""}, {}), "");
}

TEST(MachineUse, SharedMemoryIsToldApart) {
  constexpr size_t kBytes = 8 << 20;
  const int64_t before = process_memory().shared_bytes;
  void* const shared = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  std::memset(shared, 1, kBytes);
  EXPECT_GT(process_memory().shared_bytes - before, static_cast<int64_t>(kBytes / 2)) << "the kernel counts in batches";
  ::munmap(shared, kBytes);
}

// As a program has it that a large one starts: the kernel's ru_maxrss is the larger one's.
TEST(MachineUse, APeakIsNotThatOfWhoStartedTheProgram) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    void* const much = ::mmap(nullptr, 512 << 20, PROT_READ | PROT_WRITE, flags, -1, 0);
    ::dup2(ends[1], STDOUT_FILENO);
    if (much != MAP_FAILED)
      ::execl("/proc/self/exe", "monitor_test", "--gtest_filter=MachineUse.DISABLED_SaysItsPeak",
              "--gtest_also_run_disabled_tests", nullptr);
    ::_exit(1);
  }
  ASSERT_GT(child, 0);
  ::close(ends[1]);
  std::string said;
  char part[4096];
  for (ssize_t got; (got = ::read(ends[0], part, sizeof part)) > 0;) said.append(part, static_cast<size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0) << said;
  const size_t at = said.find("peak_bytes=");
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_LT(std::stoll(said.substr(at + 11)), 400 << 20);
}

TEST(MachineUse, DISABLED_SaysItsPeak) {  // for the test above
  std::printf("peak_bytes=%lld\n", static_cast<long long>(process_memory().peak_bytes));
}

TEST(HostNames, MachinesOfOneNameAreToldApart) {
  using Hosts = std::vector<std::string>;
  EXPECT_EQ(told_apart({"a", "localhost", "localhost", "localhost", "a"}, {"1", "2", "3", "2", "1"}),
            (Hosts{"a", "localhost", "localhost (2)", "localhost", "a"}));
  EXPECT_EQ(told_apart({}, {}), Hosts{});
}

TEST(MachineUse, KnowsMemoryAndCores) {
  const ProcessMemory memory = process_memory();
  EXPECT_GT(memory.resident_bytes, 1 << 20);
  EXPECT_GE(memory.peak_bytes, memory.resident_bytes);
  EXPECT_GT(memory.file_bytes, 0);
  EXPECT_GT(host_memory_bytes().value_or(0), memory.peak_bytes);
  MachineUse use("no such bus");
  EXPECT_FALSE(use.cpu_percent().has_value());
  double sum = 0;
  for (int i = 0; i < 20'000'000; ++i) sum += static_cast<double>(i);
  EXPECT_GT(sum, 0);
  EXPECT_GT(use.cpu_percent().value_or(-1), 0);
  EXPECT_FALSE(use.gpu_percent().has_value());
}

}  // namespace
}  // namespace weft
