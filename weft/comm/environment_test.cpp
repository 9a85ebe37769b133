#include "weft/comm/environment.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "weft/base/error.h"
#include "weft/comm/slurm_text.h"

namespace weft::comm {
namespace {

using Variables = std::map<std::string, std::string>;

RankIdentity read(const Variables& values) {
  return read_rank_environment([&](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  });
}

Variables with(Variables values, const Variables& more) {
  for (const auto& [name, value] : more) values[name] = value;
  return values;
}

const Variables kTorchrun = {{"RANK", "1"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "n0"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "none"}};
const Variables kMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"PMIX_NAMESPACE", "prterun-h-77@1"}};
const Variables kSlurm = {
    {"SLURM_PROCID", "6"},      {"SLURM_NTASKS", "7"},  {"SLURM_LOCALID", "0"},
    {"SLURM_NODEID", "3"},      {"SLURM_NNODES", "4"},  {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
    {"SLURM_JOB_ID", "123456"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "node[01-03,7],gpu5"}};

TEST(Environment, NothingMeansAlone) {
  const RankIdentity me = read({});
  EXPECT_EQ(describe(me), "rank 0 of 1 (alone)");
  EXPECT_TRUE(me.all_on_one_host());
  EXPECT_FALSE(me.local_rank || me.master_port);
}

TEST(Environment, ReadsTorchrun) {
  const RankIdentity me = read(kTorchrun);
  EXPECT_EQ(describe(me), "rank 1 of 4 (torchrun), local rank 1 of 2, master n0:29500");
  EXPECT_FALSE(me.all_on_one_host());
  EXPECT_EQ(me.run_id, "");  // "none" is what torchrun calls every run
}

TEST(Environment, TellsWeftRunFromTorchrun) {
  const RankIdentity me =
      read(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "a7"}, {"WEFT_RUN_ID", "a7"}, {"GROUP_WORLD_SIZE", "2"}}));
  EXPECT_EQ(describe(me), "rank 1 of 4 (weft run), local rank 1 of 2, 2 hosts, master n0:29500");
  EXPECT_EQ(me.run_id, "a7");
}

TEST(Environment, RanksOfOneHostNeedNoMaster) {
  const RankIdentity me = read({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}});
  EXPECT_EQ(describe(me), "rank 1 of 2 (torchrun), master 127.0.0.1");
  EXPECT_EQ(me.num_hosts, 1);
}

TEST(Environment, ReadsOpenMpi) {
  const RankIdentity me = read(kMpi);
  EXPECT_EQ(describe(me), "rank 1 of 2 (Open MPI), local rank 1 of 2, master 127.0.0.1");
  EXPECT_EQ(me.run_id, "prterun-h-77@1");
  EXPECT_TRUE(me.all_on_one_host());
}

TEST(Environment, ReadsSlurm) {
  const RankIdentity me = read(kSlurm);
  EXPECT_EQ(describe(me), "rank 6 of 7 (Slurm), local rank 0 of 1, 4 hosts, master node01:23456");
  EXPECT_EQ(me.run_id, "slurm-123456.0");
  EXPECT_EQ(read(with(kSlurm, {{"SLURM_STEP_ID", "1"}})).master_port, 23557);
  EXPECT_EQ(read(with(kSlurm, {{"MASTER_PORT", "4000"}, {"MASTER_ADDR", "n9"}})).master_addr, "n9");
  EXPECT_EQ(read(with(kSlurm, {{"MASTER_PORT", "4000"}})).master_port, 4000);
}

TEST(Environment, SlurmKnowsTheRanksOfOneHost) {
  const RankIdentity me = read({{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}, {"SLURM_JOB_NUM_NODES", "1"}});
  EXPECT_EQ(me.local_world, 3);
  EXPECT_TRUE(me.all_on_one_host());
}

TEST(Environment, SlurmTasksPerNodeCountsOnlyWhereItIsExact) {
  const Variables base = {{"SLURM_PROCID", "0"},          {"SLURM_NTASKS", "6"}, {"SLURM_NNODES", "2"},
                          {"SLURM_NTASKS_PER_NODE", "3"}, {"SLURM_JOB_ID", "1"}, {"SLURM_JOB_NODELIST", "a,b"}};
  EXPECT_EQ(read(base).local_world, 3);
  EXPECT_FALSE(read(with(base, {{"SLURM_NTASKS", "5"}})).local_world);  // then it was an upper limit
}

TEST(Environment, ABatchScriptWithoutTasksIsAlone) {
  EXPECT_EQ(describe(read({{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "9"}, {"SLURM_LOCALID", "0"}})),
            "rank 0 of 1 (Slurm), local rank 0");
  EXPECT_EQ(read({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "9"}}).source, "alone");  // a shell of salloc
}

TEST(Environment, AnInteractiveStepHasAHugeNumber) {
  const RankIdentity me = read(with(kSlurm, {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_JOB_ID", "4294901760"}}));
  EXPECT_GE(me.master_port, 20000);
  EXPECT_LE(me.master_port, 29999);
}

TEST(Environment, TheFirstSourceDecides) {
  EXPECT_EQ(read(with(kTorchrun, kSlurm)).source, "torchrun");  // torchrun inside an allocation
  EXPECT_EQ(read(with(kMpi, kSlurm)).source, "Open MPI");       // mpirun inside an allocation
  EXPECT_EQ(read(with(kTorchrun, kMpi)).source, "torchrun");    // torchrun below mpirun, one per host
}

struct Refusal {
  const char* name;
  Variables values;
  std::vector<std::string> says;
};

TEST(Environment, RefusesWhatCannotBe) {
  const Variables plain = {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "n0"}, {"MASTER_PORT", "29500"}};
  const Refusal cases[] = {
      {"rank alone", {{"RANK", "1"}}, {"RANK='1'", "WORLD_SIZE is not set"}},
      {"world alone", {{"WORLD_SIZE", "2"}}, {"RANK is not set", "WORLD_SIZE='2'"}},
      {"rank too large", with(plain, {{"RANK", "4"}}), {"RANK is not below WORLD_SIZE", "RANK='4'", "WORLD_SIZE='4'"}},
      {"negative", with(plain, {{"RANK", "-1"}}), {"RANK is not a whole number", "RANK='-1'"}},
      {"letters", with(plain, {{"RANK", "1x"}}), {"RANK='1x'"}},
      {"empty", with(plain, {{"RANK", ""}}), {"RANK=''"}},
      {"space", with(plain, {{"RANK", " 3"}}), {"RANK=' 3'", "without spaces"}},
      {"world of 0", with(plain, {{"WORLD_SIZE", "0"}}), {"from 1 to 65536", "WORLD_SIZE='0'"}},
      {"huge world", with(plain, {{"WORLD_SIZE", "65537"}}), {"from 1 to 65536"}},
      {"overflow", with(plain, {{"WORLD_SIZE", "99999999999999999999"}}), {"WORLD_SIZE="}},
      {"local rank", with(kTorchrun, {{"LOCAL_RANK", "2"}}), {"LOCAL_RANK='2'", "LOCAL_WORLD_SIZE='2'"}},
      {"local world", with(kTorchrun, {{"LOCAL_WORLD_SIZE", "5"}}), {"LOCAL_WORLD_SIZE='5'", "WORLD_SIZE='4'"}},
      {"hosts", with(kTorchrun, {{"GROUP_WORLD_SIZE", "1"}}), {"GROUP_WORLD_SIZE='1'", "contradict"}},
      {"no address", {{"RANK", "1"}, {"WORLD_SIZE", "2"}}, {"MASTER_ADDR is not set", "2 ranks (torchrun)"}},
      {"empty address", with(plain, {{"MASTER_ADDR", ""}}), {"MASTER_ADDR is not set"}},
      {"no port", {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "n0"}}, {"MASTER_PORT is not set", "n0"}},
      {"port 0", with(plain, {{"MASTER_PORT", "0"}}), {"MASTER_PORT is not a whole number from 1 to 65535"}},
      {"port 65536", with(plain, {{"MASTER_PORT", "65536"}}), {"MASTER_PORT='65536'"}},
      {"local rank alone", {{"LOCAL_RANK", "0"}}, {"LOCAL_RANK='0'", "without RANK"}},
      {"half of mpirun", {{"OMPI_COMM_WORLD_RANK", "0"}}, {"OMPI_COMM_WORLD_SIZE is not set"}},
      {"mpirun on two hosts",
       with(kMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}),
       {"MASTER_ADDR is not set", "Open MPI"}},
      {"mpirun says otherwise",
       with(plain, with(kMpi, {{"RANK", "3"}})),
       {"RANK='3'", "OMPI_COMM_WORLD_RANK='1'", "unset"}},
      {"Slurm without tasks", {{"SLURM_PROCID", "3"}}, {"SLURM_PROCID='3'", "SLURM_NTASKS is not set"}},
      {"Slurm's local rank", with(kSlurm, {{"SLURM_LOCALID", "1"}}), {"SLURM_LOCALID='1'", "1 tasks here"}},
      {"Slurm without a host", {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}, {"MASTER_ADDR is not set", "Slurm"}},
      {"local rank beside Slurm", with(kSlurm, {{"LOCAL_RANK", "1"}}), {"LOCAL_RANK='1'", "Slurm", "local rank 0"}},
  };
  for (const Refusal& one : cases) {
    try {
      ADD_FAILURE() << one.name << ": taken as " << describe(read(one.values));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput) << one.name;
      EXPECT_FALSE(error.text().fix.empty()) << one.name;
      const std::string text = error.what();
      for (const auto& part : one.says) EXPECT_NE(text.find(part), std::string::npos) << one.name << ": " << text;
    }
  }
}

void expect_consistent(const RankIdentity& me) {
  EXPECT_GE(me.rank, 0);
  EXPECT_LT(me.rank, me.world);
  EXPECT_LE(me.world, 65536);
  EXPECT_LE(me.local_world.value_or(1), me.world);
  EXPECT_GE(me.local_world.value_or(1), 1);
  EXPECT_GE(me.local_rank.value_or(0), 0);
  EXPECT_LT(me.local_rank.value_or(0), me.local_world.value_or(me.world));
  const bool tells_hosts = me.num_hosts && me.local_world;
  EXPECT_TRUE(!tells_hosts || (*me.num_hosts == 1) == (*me.local_world == me.world));
  EXPECT_TRUE(me.world == 1 || !me.master_addr.empty());
  EXPECT_TRUE(me.all_on_one_host() || me.master_port);
  EXPECT_GE(me.master_port.value_or(1), 1);
  EXPECT_LE(me.master_port.value_or(1), 65535);
}

TEST(Environment, AnyCombinationIsAnErrorOrAConsistentIdentity) {
  const std::vector<std::string> names = {"RANK",
                                          "WORLD_SIZE",
                                          "LOCAL_RANK",
                                          "LOCAL_WORLD_SIZE",
                                          "GROUP_WORLD_SIZE",
                                          "MASTER_ADDR",
                                          "MASTER_PORT",
                                          "TORCHELASTIC_RUN_ID",
                                          "WEFT_RUN_ID",
                                          "SLURM_PROCID",
                                          "SLURM_NTASKS",
                                          "SLURM_LOCALID",
                                          "SLURM_NODEID",
                                          "SLURM_NNODES",
                                          "SLURM_JOB_NUM_NODES",
                                          "SLURM_JOB_ID",
                                          "SLURM_STEP_ID",
                                          "SLURM_JOB_NODELIST",
                                          "SLURM_STEP_NODELIST",
                                          "SLURM_TASKS_PER_NODE",
                                          "PMIX_NAMESPACE",
                                          "SLURM_NTASKS_PER_NODE",
                                          "OMPI_COMM_WORLD_RANK",
                                          "OMPI_COMM_WORLD_SIZE",
                                          "OMPI_COMM_WORLD_LOCAL_RANK",
                                          "SLURM_STEP_TASKS_PER_NODE",
                                          "OMPI_COMM_WORLD_LOCAL_SIZE"};
  const std::vector<std::string> texts = {
      "0",         "1",       "2",   "3",   "4",  "8",        "65536", "-1",   "",      " 3",
      "1x",        "2(x3),1", "2(x", "(x)", "a[", "n[1-3],b", "n]",    "host", "29500", "9223372036854775808",
      "4294967290"};
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same combinations every time
  int num_read = 0;
  for (int round = 0; round < 20000; ++round) {
    Variables values;
    for (const auto& name : names) {
      // Mostly small numbers, so that a good part of the combinations gets past the first check.
      if (random() % 2 == 0) values[name] = texts[random() % (random() % 8 == 0 ? texts.size() : 5)];
    }
    try {
      expect_consistent(read(values));
      ++num_read;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
    }
  }
  EXPECT_GT(num_read, 100);
}

TEST(SlurmText, FirstHost) {
  const std::pair<const char*, const char*> cases[] = {{"node[01-03,7],gpu5", "node01"},
                                                       {"a,b", "a"},
                                                       {"only", "only"},
                                                       {"r[1-2]n[03-16]", "r1n03"},
                                                       {"n[7]", "n7"},
                                                       {"", ""},
                                                       {"n[1-", ""},
                                                       {"n[]", "n"}};
  for (const auto& [list, host] : cases) EXPECT_EQ(first_host(list), host) << list;
}

TEST(SlurmText, TasksOnHost) {
  EXPECT_EQ(tasks_on_host("2(x3),1", 0), 2);
  EXPECT_EQ(tasks_on_host("2(x3),1", 2), 2);
  EXPECT_EQ(tasks_on_host("2(x3),1", 3), 1);
  EXPECT_EQ(tasks_on_host("4", 0), 4);
  for (const char* bad : {"2(x3),1", "", "2(x", "(x3)", "two"}) EXPECT_FALSE(tasks_on_host(bad, 4)) << bad;
}

}  // namespace
}  // namespace weft::comm
