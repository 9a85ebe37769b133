#include "weft/monitor/live/prometheus.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>

namespace weft {
namespace {

LiveState scraped_state() {
  LiveState state{.name = "my \"run\"\\\n", .status = "running", .step = 12, .num_bad_losses = 3};
  state.latest.set("loss", std::nan(""));
  state.latest.set("step_ms", 250);
  state.latest.set("forward_ms", 100);
  state.latest.set("samples", 64);
  state.latest.set("sent_reduce_bytes", 4096);
  state.latest.set("sent_loss_bytes", 400);
  state.latest.set("step_ms_max", 260);
  state.latest.set("busy_ms_min", 180);
  state.latest.set("busy_ms_max", 240);
  state.latest.set("device_fragmentation", 0.25);
  state.world = 2;
  RankState rank{.rank = 1, .host = "a\"b", .health = RankHealth::kSlow, .why = ""};
  rank.numbers.set("step_ms", 200);
  rank.numbers.set("gpu_percent", 50);
  rank.numbers.set("device_bytes", 60);
  rank.numbers.set("device_reserved_bytes", 80);
  state.ranks = {rank};
  state.slow = {{.rank = 1, .phase = "backward", .where = "blocks.3", .percent = 12.5}};
  return state;
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Prometheus, ValuesAreInBaseUnits) {
  const std::string text = prometheus_text(scraped_state());
  EXPECT_TRUE(has_line(text, "weft_step 12")) << text;
  EXPECT_TRUE(has_line(text, "weft_step_seconds 0.25"));
  EXPECT_TRUE(has_line(text, "weft_step_part_seconds{part=\"forward\"} 0.1"));
  EXPECT_TRUE(has_line(text, "weft_samples_total 64"));
  EXPECT_TRUE(has_line(text, "weft_not_finite_losses_total 3"));
  EXPECT_TRUE(has_line(text, "# TYPE weft_not_finite_losses_total counter")) << "increase() is for counters";
  EXPECT_TRUE(has_line(text, "weft_running 1"));
  EXPECT_TRUE(has_line(text, "weft_stalled 0"));
  EXPECT_TRUE(has_line(text, "weft_rank_slow_ratio{rank=\"1\",phase=\"backward\",where=\"blocks.3\"} 0.125"));
}

TEST(Prometheus, WhatWasSentByOperationAndWhatRanksDiffer) {
  const std::string text = prometheus_text(scraped_state());
  EXPECT_TRUE(has_line(text, "weft_step_operation_sent_bytes{operation=\"reduce\"} 4096")) << text;
  EXPECT_TRUE(has_line(text, "weft_step_operation_sent_bytes{operation=\"loss\"} 400"));
  EXPECT_EQ(text.find("operation=\"gather\""), std::string::npos) << "not recorded";
  EXPECT_TRUE(has_line(text, "weft_ranks_step_seconds{over=\"max\"} 0.26"));
  EXPECT_TRUE(has_line(text, "weft_ranks_busy_seconds{over=\"min\"} 0.18"));
  EXPECT_TRUE(has_line(text, "weft_ranks_busy_seconds{over=\"max\"} 0.24"));
  EXPECT_TRUE(has_line(text, "weft_device_fragmentation_ratio 0.25"));
  EXPECT_TRUE(has_line(text, R"(weft_rank_device_fragmentation_ratio{rank="1",host="a\"b"} 0.25)"));
}

TEST(Prometheus, LabelsAreEscapedAndALossThatIsNoNumberIsNaN) {
  const std::string text = prometheus_text(scraped_state());
  EXPECT_TRUE(has_line(text, R"(weft_run_info{run="my \"run\"\\\n",status="running"} 1)")) << text;
  EXPECT_TRUE(has_line(text, R"(weft_rank_gpu_ratio{rank="1",host="a\"b"} 0.5)"));
  EXPECT_TRUE(has_line(text, "weft_loss NaN"));
}

TEST(Prometheus, WhatIsNotRecordedHasNoLine) {
  const std::string text = prometheus_text(scraped_state());
  EXPECT_EQ(text.find("weft_mfu_ratio"), std::string::npos);
  EXPECT_EQ(text.find("weft_rank_resident_bytes"), std::string::npos);
}

TEST(Prometheus, EachMetricHasItsHeadOnceAndBeforeItsSamples) {
  std::istringstream lines(prometheus_text(scraped_state()));
  std::set<std::string> headed;
  std::string line, current;
  while (std::getline(lines, line)) {
    if (line.starts_with("# HELP ")) {
      current = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(headed.insert(current).second) << line;
    } else if (!line.starts_with("# TYPE ")) {
      EXPECT_EQ(line.substr(0, line.find_first_of(" {")), current);
    }
  }
  EXPECT_GT(headed.size(), 8u);
}

}  // namespace
}  // namespace weft
