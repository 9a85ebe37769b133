#include "weft/launcher/rank_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace weft::launcher {
namespace {

class RankEnvironment : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }

  static void clear() {
    ::unsetenv("OMP_NUM_THREADS");
    ::unsetenv(kMemoryVariable);
  }

  LaunchSpec spec_{.argv = {"true"}, .num_local = 4, .max_restarts = 3, .run_id = "r"};
};

TEST_F(RankEnvironment, IsThatOfTorchrun) {
  const Variables wanted = {{"RANK", "2"},
                            {"ROLE_RANK", "2"},
                            {"LOCAL_RANK", "2"},
                            {"WORLD_SIZE", "4"},
                            {"ROLE_WORLD_SIZE", "4"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"GROUP_RANK", "0"},
                            {"GROUP_WORLD_SIZE", "1"},
                            {"NODE_RANK", "0"},
                            {"MASTER_PORT", "555"},
                            {"OMP_NUM_THREADS", "4"},
                            {kMemoryVariable, kMemoryKept},
                            {"MASTER_ADDR", "127.0.0.1"},
                            {"WEFT_RUN_ID", "r"},
                            {"WEFT_RESUME", std::nullopt},
                            {"WEFT_BUDDY_DIR", std::nullopt},
                            {"ROLE_NAME", "default"},
                            {"TORCHELASTIC_RUN_ID", "r"},
                            {"TORCHELASTIC_RESTART_COUNT", "1"},
                            {"TORCHELASTIC_MAX_RESTARTS", "3"},
                            {"TORCHELASTIC_USE_AGENT_STORE", std::nullopt}};
  EXPECT_EQ(rank_environment(spec_, 2, 1, 555, 16), wanted);
}

TEST_F(RankEnvironment, OnlyThoseStartedAgainResume) {
  spec_.resume = true;
  EXPECT_EQ(rank_environment(spec_, 0, 0, 1, 2).at("WEFT_RESUME"), std::nullopt);
  EXPECT_EQ(rank_environment(spec_, 0, 1, 1, 2).at("WEFT_RESUME"), "1");
}

// Also an empty one, which leaves glibc as it is.
TEST_F(RankEnvironment, LeavesMemoryToTheUsersWord) {
  ::setenv(kMemoryVariable, "", 1);
  EXPECT_FALSE(rank_environment(spec_, 0, 0, 1, 2).contains(kMemoryVariable));
}

TEST_F(RankEnvironment, CountsOverHosts) {
  spec_.num_hosts = 3;
  spec_.host_rank = 2;
  spec_.master_addr = "node0";
  const auto variables = rank_environment(spec_, 1, 0, 29500, 16);
  EXPECT_EQ(variables.at("RANK"), "9");
  EXPECT_EQ(variables.at("LOCAL_RANK"), "1");
  EXPECT_EQ(variables.at("WORLD_SIZE"), "12");
  EXPECT_EQ(variables.at("LOCAL_WORLD_SIZE"), "4");
  EXPECT_EQ(variables.at("GROUP_RANK"), "2");
  EXPECT_EQ(variables.at("NODE_RANK"), "2");
  EXPECT_EQ(variables.at("MASTER_ADDR"), "node0");
}

TEST_F(RankEnvironment, ThreadsAreSharedUnlessTheCallerChose) {
  EXPECT_EQ(rank_environment(spec_, 0, 0, 1, 2).at("OMP_NUM_THREADS"), "1");
  EXPECT_EQ(rank_environment(spec_, 0, 0, 1, 11).at("OMP_NUM_THREADS"), "2");
  ::setenv("OMP_NUM_THREADS", "7", 1);
  EXPECT_FALSE(rank_environment(spec_, 0, 0, 1, 16).contains("OMP_NUM_THREADS"));
  spec_.threads = 3;
  EXPECT_EQ(rank_environment(spec_, 0, 0, 1, 16).at("OMP_NUM_THREADS"), "3");
}

TEST(RankCpus, EachIsGivenToOneRank) {
  const std::vector<int> cpus = {0, 1, 4, 5, 8, 9, 10};
  std::vector<int> given;
  for (int i = 0; i < 3; ++i) {
    const auto part = cpus_of_rank(cpus, 3, i);
    EXPECT_GE(part.size(), 2u);
    given.insert(given.end(), part.begin(), part.end());
  }
  EXPECT_EQ(given, cpus);
  EXPECT_EQ(cpus_of_rank(cpus, 7, 6), std::vector<int>{10});
}

TEST(RankCpus, WeMayRunSomewhere) { EXPECT_FALSE(allowed_cpus().empty()); }

}  // namespace
}  // namespace weft::launcher
