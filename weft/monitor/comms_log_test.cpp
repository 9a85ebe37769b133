#include "weft/monitor/comms_log.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(CommsBandwidth, FollowsTheOperation) {
  const auto rates = [](std::string_view operation) {
    const auto rate = bandwidth_of({.operation = operation, .bytes = 1'000'000'000, .ranks = 4, .ns = 1'000'000'000});
    return std::pair(rate.algorithm_gbps, rate.bus_gbps);
  };
  EXPECT_EQ(rates("all_reduce"), std::pair(16.0, 12.0));
  EXPECT_EQ(rates("all_gather"), std::pair(8.0, 6.0));
  EXPECT_EQ(rates("reduce_scatter"), std::pair(8.0, 6.0));
  EXPECT_EQ(rates("all_to_all"), std::pair(8.0, 6.0));
  EXPECT_EQ(rates("broadcast"), std::pair(8.0, 8.0));
  EXPECT_EQ(bandwidth_of({.operation = "broadcast", .bytes = 1, .ranks = 4, .ns = 0}).bus_gbps, 0)
      << "no clock is that fine";
}

TEST(CommsLog, AddsUpByOperationAndSize) {
  CommsLog log;
  EXPECT_FALSE(log.is_on());
  log.start({});
  EXPECT_TRUE(log.is_on());
  log.add({.operation = "all_reduce", .bytes = 2048, .ranks = 2, .ns = 1'000'000});
  log.add({.operation = "all_reduce", .bytes = 1024, .ranks = 2, .ns = 1'000'000});
  log.add({.operation = "all_reduce", .bytes = 2048, .ranks = 2, .ns = 3'000'000});
  log.add({.operation = "all_gather", .bytes = 2048, .ranks = 2, .ns = 500});
  const auto rows = log.rows();
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].operation, "all_gather");
  EXPECT_EQ(rows[1].bytes, 1024U);
  EXPECT_EQ(rows[2].count, 2U);
  EXPECT_EQ(rows[2].total_ns, 4'000'000);
  EXPECT_EQ(rows[2].mean_ns(), 2'000'000);
  log.start({});
  EXPECT_TRUE(log.rows().empty()) << "from nothing";
}

TEST(CommsLog, TakesTheOperationsAskedForByEitherName) {
  CommsLog log;
  log.start({.all = false, .operations = {"all_gather_into_tensor", "reduce_scatter_tensor", "isend", "barrier"}});
  for (const char* operation : {"all_gather", "reduce_scatter", "send", "barrier", "all_reduce", "recv", "broadcast"})
    log.add({.operation = operation, .bytes = 8, .ranks = 2, .ns = 10});
  std::vector<std::string> found;
  for (const CommsRow& row : log.rows()) found.push_back(row.operation);
  EXPECT_EQ(found, (std::vector<std::string>{"all_gather", "barrier", "reduce_scatter", "send"}));
}

TEST(CommsTable, HasDeepSpeedsColumns) {
  const std::vector<CommsRow> rows = {
      {.operation = "all_reduce", .bytes = 1024, .ranks = 2, .count = 1, .total_ns = 1'000'000},
      {.operation = "all_reduce", .bytes = 1U << 30, .ranks = 2, .count = 4, .total_ns = 8'000'000'000}};
  const auto lines = comms_table(rows);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0],
            "Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     "
            "tput_avg (Gbps)     busbw_avg (Gbps)");
  EXPECT_EQ(lines[1], "all_reduce") << "said once";
  EXPECT_EQ(lines[3],
            "                    1.0 GiB             4                   8000.00             2000.00             "
            "8.59                4.29");
}

}  // namespace
}  // namespace weft
