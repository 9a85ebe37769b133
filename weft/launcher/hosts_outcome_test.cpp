#include "weft/launcher/hosts_outcome.h"

#include <gtest/gtest.h>

#include <csignal>

namespace weft::launcher {
namespace {

class HostsOutcome : public testing::Test {
 protected:
  Outcome outcome() {
    return outcome_of(spec_, facts_,
                      [](int rank) { return std::vector<std::string>{"words of " + std::to_string(rank)}; });
  }
  static RankEnd end(int rank, int code, int signal = 0) {
    return {.rank = rank, .pid = 100 + rank, .status = ExitStatus{.code = code, .signal = signal}, .seconds = 1};
  }
  void fail_rank_2() {
    RankEnd failed = end(2, 7);
    failed.host = std::string("b");
    facts_.first_failure = failed;
  }

  HostsSpec spec_{.launch = {.num_hosts = 2, .ranks_per_host = {2, 1}}, .hosts = {{"a", 2}, {"b", 1}}};
  HostsFacts facts_{.reports = {AgentReport{.ranks = {end(0, 0), end(1, 0)}}, AgentReport{.ranks = {end(2, 0)}}},
                    .started = true};
};

TEST_F(HostsOutcome, AllIsWell) {
  const auto out = outcome();
  EXPECT_EQ(out.exit_code, 0);
  EXPECT_EQ(out.last_words, "");
  ASSERT_EQ(out.record.ranks.size(), 3u);
  EXPECT_EQ(out.record.ranks[1].host, "a");
  EXPECT_EQ(out.record.ranks[2].host, "b");
  EXPECT_FALSE(out.is_final);
}

TEST_F(HostsOutcome, AFailureNamesItsHostAndHasItsLastLines) {
  fail_rank_2();
  const auto out = outcome();
  EXPECT_EQ(out.exit_code, 7);
  EXPECT_EQ(out.record.first_failure, 2);
  EXPECT_TRUE(out.last_words.starts_with("error: rank 2 of 3 on host b failed: exit code 7\n")) << out.last_words;
  EXPECT_TRUE(out.last_words.ends_with("    words of 2\n")) << out.last_words;
}

TEST_F(HostsOutcome, WithALogTheLinesCameWithTheReport) {
  fail_rank_2();
  facts_.reports[1]->failure = Failure{.end = end(2, 7), .log = "logs/x", .last_lines = {"from the log"}};
  const auto out = outcome();
  EXPECT_NE(out.last_words.find("  where: logs/x on host b\n"), std::string::npos) << out.last_words;
  EXPECT_TRUE(out.last_words.ends_with("    from the log\n")) << out.last_words;
}

TEST_F(HostsOutcome, RanksOfALostHostHaveNoEnd) {
  facts_.reports[1].reset();
  facts_.error = Error(ErrorKind::kEnvironment, {.title = "host b was lost", .what = "", .where = "", .fix = ""});
  const auto out = outcome();
  EXPECT_EQ(out.exit_code, 1);
  ASSERT_EQ(out.record.ranks.size(), 3u);
  EXPECT_EQ(out.record.ranks[2].rank, 2);
  EXPECT_EQ(out.record.ranks[2].host, "b");
  EXPECT_EQ(out.record.ranks[2].status, std::nullopt);
  EXPECT_EQ(out.last_words, "error: host b was lost\n");
  EXPECT_FALSE(out.is_final);
  EXPECT_NE(to_json({.world = 3, .attempts = {out.record}}).find(R"("signal": null)"), std::string::npos);
}

TEST_F(HostsOutcome, AHostThatNeverAnsweredIsNotTriedAgain) {
  facts_.error = Error(ErrorKind::kEnvironment, {.title = "cannot reach host b", .what = "", .where = "", .fix = ""});
  facts_.started = false;
  EXPECT_TRUE(outcome().is_final);
  facts_.attempt = 1;
  EXPECT_FALSE(outcome().is_final);
}

TEST_F(HostsOutcome, ASignalIs128AndItsNumber) {
  facts_.interrupted_by = SIGINT;
  EXPECT_EQ(outcome().exit_code, 128 + SIGINT);
  EXPECT_TRUE(outcome().is_final);
}

}  // namespace
}  // namespace weft::launcher
