// Signals to the launcher itself need a process of its own: tests/cli/run_test.py has those.
#include "weft/launcher/supervisor.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"
#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/launcher/descendants.h"

namespace weft::launcher {
namespace {

using std::chrono::milliseconds;

class Supervisor : public testing::Test {
 protected:
  // Each test leaves nothing below this process.
  void TearDown() override { EXPECT_TRUE(descendants().empty()); }

  LaunchSpec shell(int num_local, const std::string& script) {
    return {.argv = {"/bin/sh", "-c", script}, .num_local = num_local, .log_dir = logs_.path().string()};
  }
  std::string log(int rank, int attempt = 0) {
    return read_file(Env::posix(), logs_ / cat("rank_", rank, ".attempt_", attempt, ".log"), 1 << 20);
  }

  test::TempDir logs_;
};

TEST_F(Supervisor, EveryRankKnowsItsPlace) {
  const auto result = supervise(shell(3, "echo $RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.last_words, "");
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(log(rank), cat(rank, "/3 ", rank, " 127.0.0.1\n"));
}

TEST_F(Supervisor, ARankThatEndsWellLeavesTheOthersAlone) {
  // Rank 1 ends only after rank 0 has: it waits for the end of a pipe that rank 0 holds.
  const std::string fifo = logs_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto result = supervise(
      shell(2, cat("if [ $RANK = 0 ]; then exec 3>", fifo, "; exit 0; else cat <", fifo, "; echo after; fi")));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(log(1), "after\n");
}

TEST_F(Supervisor, TheFirstFailureEndsTheOthersAndGivesTheCode) {
  const auto result = supervise(shell(3, "if [ $RANK = 1 ]; then echo broken >&2; exit 7; else exec sleep 1000; fi"));
  EXPECT_EQ(result.exit_code, 7);
  ASSERT_EQ(result.attempts.size(), 1u);
  EXPECT_EQ(result.attempts[0].first_failure, 1);
  EXPECT_EQ(result.attempts[0].ranks[0].status->signal, SIGTERM);
  EXPECT_EQ(result.attempts[0].ranks[2].status->signal, SIGTERM);
  EXPECT_TRUE(result.last_words.starts_with("error: rank 1 of 3 failed: exit code 7\n")) << result.last_words;
  EXPECT_TRUE(result.last_words.ends_with("    broken\n")) << result.last_words;
}

TEST_F(Supervisor, ARankThatIgnoresSigtermIsKilledAfterTheGracePeriod) {
  // Rank 0 fails only once rank 1 has said that it ignores the signal.
  const std::string fifo = logs_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  auto spec = shell(2, cat("if [ $RANK = 0 ]; then cat <", fifo, "; exit 3; fi; trap '' TERM; : >", fifo,
                           "; while :; do sleep 1000; done"));
  spec.grace = milliseconds(200);
  const auto result = supervise(spec);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.attempts[0].ranks[1].status->signal, SIGKILL);
}

TEST_F(Supervisor, ARankThatNoticesTheLossMayEndByItself) {
  // Rank 1 has something to say about the loss of rank 0, and does so only after it; SIGTERM would take its word away.
  const std::string fifo = logs_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  auto spec = shell(2, cat("if [ $RANK = 0 ]; then exec 3>", fifo, "; kill -KILL $$; fi; cat ", fifo,
                           "; sleep 0.2; echo rank 0 is gone; exit 5"));
  spec.linger = std::chrono::seconds(60);
  const auto result = supervise(spec);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << "the cause, not what followed";
  EXPECT_EQ(result.attempts[0].ranks[1].status->code, 5);
  EXPECT_EQ(log(1), "rank 0 is gone\n");
}

TEST_F(Supervisor, ARankThatDoesNotNoticeIsAskedToEndAfterTheLinger) {
  auto spec = shell(2, "[ $RANK = 0 ] && exit 3; exec sleep 1000");
  spec.linger = milliseconds(100);
  const auto result = supervise(spec);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.attempts[0].ranks[1].status->signal, SIGTERM);
}

TEST_F(Supervisor, GrandchildrenGoToo) {
  const auto result = supervise(shell(2, "setsid sleep 1000 & sleep 1000 & echo done"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(log(0), "done\n");
}

TEST_F(Supervisor, ADeathBySignalIs128AndTheSignal) {
  const auto result = supervise(shell(1, "kill -SEGV $$"));
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
  EXPECT_NE(result.last_words.find("killed by SIGSEGV"), std::string::npos);
}

TEST_F(Supervisor, RestartsUntilItSucceeds) {
  auto spec = shell(2, "echo $TORCHELASTIC_RESTART_COUNT $MASTER_PORT; [ $TORCHELASTIC_RESTART_COUNT = 1 ]");
  spec.max_restarts = 3;
  const auto result = supervise(spec);
  EXPECT_EQ(result.exit_code, 0);
  ASSERT_EQ(result.attempts.size(), 2u);
  ASSERT_TRUE(result.attempts[0].first_failure.has_value());
  EXPECT_EQ(result.attempts[1].first_failure, std::nullopt);
  // The other rank may have been ended before it printed anything.
  EXPECT_EQ(log(*result.attempts[0].first_failure, 0).substr(0, 2), "0 ");
  EXPECT_EQ(log(0, 1).substr(0, 2), "1 ");
  EXPECT_EQ(log(0, 1), log(1, 1)) << "all ranks of an attempt meet at one port";
}

TEST_F(Supervisor, WrongUsageIsNotTriedAgain) {
  auto spec = shell(1, "exit 2");
  spec.max_restarts = 3;
  const auto result = supervise(spec);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.attempts.size(), 1u);
}

TEST_F(Supervisor, WhatCannotBeRunIsRefused) {
  write_file(Env::posix(), logs_ / "plain", bytes_of("print('hello')\n"));
  write_file(Env::posix(), logs_ / "no_shell", bytes_of("print('hello')\n"));
  std::filesystem::permissions(logs_ / "no_shell", std::filesystem::perms::owner_all);
  const std::pair<std::string, std::string> cases[] = {
      {"no-such-program-anywhere", "there is no program no-such-program-anywhere"},
      {logs_ / "missing", "there is no program"},
      {logs_ / "plain", "cannot be run"},
      {logs_ / "no_shell", "cannot be run"}};
  for (const auto& [program, title] : cases) {
    try {
      supervise({.argv = {program}, .num_local = 2});
      FAIL() << program;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2) << program;
      EXPECT_NE(error.text().title.find(title), std::string::npos) << error.what();
    }
  }
}

TEST(RunJson, HasWhatHappenedToEachRank) {
  const RunResult result{
      .world = 2,
      .attempts = {{.ranks = {{.rank = 0, .pid = 10, .status = ExitStatus{.code = 3, .signal = 0}, .seconds = 0.5},
                              {.rank = 1, .pid = 11, .status = ExitStatus{.code = 0, .signal = 15}, .seconds = 1}},
                    .first_failure = 0}},
      .exit_code = 3};
  const auto wanted =
      nlohmann::json::parse(R"({"schema": 1, "world": 2, "exit": 3, "attempts": [{"first_failure": 0, "ranks": [
      {"rank": 0, "pid": 10, "exit": 3, "signal": null, "seconds": 0.5},
      {"rank": 1, "pid": 11, "exit": null, "signal": 15, "seconds": 1.0}]}]})");
  EXPECT_EQ(nlohmann::json::parse(to_json(result)), wanted);
}

}  // namespace
}  // namespace weft::launcher
