#include "weft/launcher/agent_job.h"

#include <gtest/gtest.h>

namespace weft::launcher {
namespace {

TEST(AgentJob, ArrivesAsItWas) {
  const AgentJob job{.launch = {.argv = {"a b", "'\"$\n", "\xff\xfe", ""},
                                .num_local = 2,
                                .num_hosts = 2,
                                .host_rank = 1,
                                .ranks_per_host = {3, 2},
                                .master_addr = "node0",
                                .master_port = 4321,
                                .max_restarts = 5,
                                .resume = true,
                                .linger = std::chrono::milliseconds(700),
                                .grace = std::chrono::milliseconds(1500),
                                .log_dir = "l\xff",
                                .threads = 7,
                                .bind_cores = true,
                                .run_id = "r",
                                .host_name = "h\xff"},
                     .attempt = 2,
                     .cwd = "/a b",
                     .env = {{"NCCL_DEBUG", "INFO"}, {"X", "\xff\n"}}};
  const AgentJob got = job_of_bytes(bytes_of_job(job));
  EXPECT_EQ(got.launch.argv, job.launch.argv);
  EXPECT_EQ(got.launch.ranks_per_host, job.launch.ranks_per_host);
  EXPECT_EQ(got.launch.rank_of(1), 4);
  EXPECT_EQ(got.launch.world(), 5);
  EXPECT_EQ(got.launch.num_local, 2);
  EXPECT_EQ(got.launch.master_addr, "node0");
  EXPECT_EQ(got.launch.master_port, 4321);
  EXPECT_EQ(got.launch.max_restarts, 5);
  EXPECT_TRUE(got.launch.resume);
  EXPECT_EQ(got.launch.linger, job.launch.linger);
  EXPECT_EQ(got.launch.grace, job.launch.grace);
  EXPECT_EQ(got.launch.log_dir, job.launch.log_dir);
  EXPECT_EQ(got.launch.threads, 7);
  EXPECT_EQ(got.launch.host_name, job.launch.host_name);
  EXPECT_TRUE(got.launch.bind_cores);
  EXPECT_TRUE(got.launch.is_agent);
  EXPECT_EQ(got.launch.run_id, "r");
  EXPECT_EQ(got.attempt, 2);
  EXPECT_EQ(got.cwd, "/a b");
  EXPECT_EQ(got.env, job.env);
}

TEST(AgentReport, ArrivesAsItWas) {
  const RankEnd killed{.rank = 3, .pid = 10, .status = ExitStatus{.code = 0, .signal = 9}, .seconds = 0.5};
  const AgentReport report{.ranks = {killed, {.rank = 4, .pid = 11}},
                           .failure = Failure{.end = killed, .log = "x.log", .last_lines = {"one", "two"}},
                           .interrupted_by = 15,
                           .heard_nothing = true};
  const AgentReport got = report_of_bytes(bytes_of_report(report));
  ASSERT_EQ(got.ranks.size(), 2u);
  EXPECT_EQ(got.ranks[0].status, killed.status);
  EXPECT_EQ(got.ranks[0].seconds, 0.5);
  EXPECT_EQ(got.ranks[1].status, std::nullopt);
  EXPECT_EQ(got.ranks[1].pid, 11);
  ASSERT_TRUE(got.failure.has_value());
  EXPECT_EQ(got.failure->end.rank, 3);
  EXPECT_EQ(got.failure->log, "x.log");
  EXPECT_EQ(got.failure->last_lines, report.failure->last_lines);
  EXPECT_EQ(got.interrupted_by, 15);
  EXPECT_TRUE(got.heard_nothing);
  EXPECT_EQ(end_of_bytes(bytes_of_end(killed)).status, killed.status);
}

TEST(AgentErrors, ArriveAsTheyWere) {
  const Error error(ErrorKind::kInput, {.title = "t", .what = "w", .where = "p", .fix = "f"});
  const Error got = error_of_bytes(bytes_of_error(error));
  EXPECT_STREQ(got.what(), error.what());
  EXPECT_EQ(got.exit_code(), 2);
}

TEST(AgentMessages, OtherBytesAreRefused) {
  EXPECT_THROW(job_of_bytes("hello"), Error);
  EXPECT_THROW(job_of_bytes(""), Error);
  EXPECT_THROW(report_of_bytes(bytes_of_job({})), Error);
  EXPECT_THROW(end_of_bytes(bytes_of_job({})), Error);
  EXPECT_THROW(error_of_bytes("\xff"), Error);
}

}  // namespace
}  // namespace weft::launcher
