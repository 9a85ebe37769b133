#include "weft/cli/front/run_options.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "weft/cli/front/test_refusal_impl.h"

namespace weft::cli {
namespace {

using Words = std::vector<std::string>;

Words with_program(Words words) {
  words.insert(words.end(), {"--", "prog", "-n", "--", "x"});
  return words;
}

launcher::LaunchSpec launch_spec(const Words& words) { return parse_run_options(with_program(words)).value().launch; }

TEST(RunOptions, WhatStandsAfterTheSeparatorIsTheProgram) {
  const auto spec = launch_spec({"-n", "4"});
  EXPECT_EQ(spec.argv, (Words{"prog", "-n", "--", "x"}));
  EXPECT_EQ(spec.num_local, 4);
  EXPECT_EQ(spec.linger, std::chrono::seconds(2));
  EXPECT_EQ(spec.grace, std::chrono::seconds(10));
  EXPECT_TRUE(spec.prefix);
  EXPECT_FALSE(spec.bind_cores);
  EXPECT_EQ(spec.master_port, std::nullopt);
  EXPECT_EQ(launch_spec({}).num_local, 1);
}

TEST(RunOptions, FlagsReachTheSpec) {
  const auto spec = launch_spec({"-n2", "--restarts", "3", "--linger", "0s", "--grace", "500ms", "--threads", "5",
                                 "--bind", "cores", "--no-prefix", "--log-dir", "logs", "--master-port", "1234"});
  EXPECT_EQ(spec.max_restarts, 3);
  EXPECT_EQ(spec.linger.count(), 0);
  EXPECT_EQ(spec.grace, std::chrono::milliseconds(500));
  EXPECT_EQ(spec.threads, 5);
  EXPECT_TRUE(spec.bind_cores);
  EXPECT_FALSE(spec.prefix);
  EXPECT_EQ(spec.log_dir, "logs");
  EXPECT_EQ(spec.master_port, 1234);
}

TEST(RunOptions, AddressesOfTheFirstHost) {
  const std::tuple<std::string, std::string, std::optional<int>> cases[] = {
      {"node0", "node0", std::nullopt},       {"node0:29501", "node0", 29501},
      {"10.0.0.1:1", "10.0.0.1", 1},          {"fe80::1", "fe80::1", std::nullopt},
      {"[fe80::1]", "fe80::1", std::nullopt}, {"[fe80::1]:65535", "fe80::1", 65535},
  };
  for (const auto& [text, host, port] : cases) {
    const auto spec = launch_spec({"--nnodes", "2", "--node-rank", "1", "--master", text});
    EXPECT_EQ(spec.master_addr, host) << text;
    EXPECT_EQ(spec.master_port, port) << text;
    EXPECT_EQ(spec.num_hosts, 2);
    EXPECT_EQ(spec.host_rank, 1);
  }
}

TEST(RunOptions, HostsAgreeOnTheNameOfTheRun) {
  ::unsetenv("WEFT_RUN_ID");
  EXPECT_EQ(launch_spec({"--nnodes", "2", "--node-rank", "1", "--master", "node0"}).run_id, "node0:29500");
  EXPECT_NE(launch_spec({}).run_id, "");
  ::setenv("WEFT_RUN_ID", "mine", 1);
  EXPECT_EQ(launch_spec({}).run_id, "mine");
  ::unsetenv("WEFT_RUN_ID");
}

TEST(RunOptions, HostsHaveTheirOwnRanks) {
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("MINE", "a b", 1);
  const auto spec =
      parse_run_options(with_program({"-n", "4", "--hosts", "me@a,b:2", "--env", "MINE", "--env", "X=1=2", "--ssh",
                                      "fake 'a b'", "--remote-weft", "/opt/weft", "--restarts", "3"}))
          .value()
          .hosts.value();
  EXPECT_EQ(spec.hosts, (std::vector<launcher::Host>{{"me@a", 4}, {"b", 2}}));
  EXPECT_EQ(spec.launch.world(), 6);
  EXPECT_EQ(spec.launch.num_hosts, 2);
  EXPECT_EQ(spec.launch.master_addr, "a");
  EXPECT_EQ(spec.launch.master_port, std::nullopt);
  EXPECT_EQ(spec.launch.max_restarts, 3);
  EXPECT_EQ(spec.launch.argv, (Words{"prog", "-n", "--", "x"}));
  EXPECT_EQ(spec.ssh, (Words{"fake", "a b"}));
  EXPECT_EQ(spec.remote_weft, "/opt/weft");
  EXPECT_EQ(spec.env.at("MINE"), "a b");
  EXPECT_EQ(spec.env.at("X"), "1=2");
  EXPECT_EQ(spec.env.at("NCCL_DEBUG"), "INFO");
  EXPECT_FALSE(spec.env.contains("PATH"));
  ::unsetenv("NCCL_DEBUG");
  ::unsetenv("MINE");
}

TEST(RunOptions, TheMasterOfHostsCanBeNamed) {
  const auto launch = [](const Words& words) {
    return parse_run_options(with_program(words)).value().hosts.value().launch;
  };
  EXPECT_EQ(launch({"--hosts", "a,b", "--master", "10.0.0.1:5"}).master_addr, "10.0.0.1");
  EXPECT_EQ(launch({"--hosts", "a,b", "--master", "10.0.0.1:5"}).master_port, 5);
  EXPECT_EQ(launch({"--hosts", "a,b", "--master-port", "6"}).master_port, 6);
  EXPECT_FALSE(parse_run_options(with_program({})).value().hosts.has_value());
}

TEST(RunOptions, RefusesWithTheReason) {
  const std::pair<Words, std::string> cases[] = {
      {{}, "no program to run"},
      {{"-n", "2", "--"}, "no program to run"},
      {{"-n", "2", "python3", "x.py"}, "the program stands after --"},
      {with_program({"-n", "0"}), "0 is outside 1..1024"},
      {with_program({"-n", "1025"}), "1025 is outside 1..1024"},
      {with_program({"-n", "many"}), "'many' is not a whole number"},
      {with_program({"--restart", "1"}), "did you mean --restarts?"},
      {with_program({"--resume"}), "requires --restarts"},
      {with_program({"--min-ranks", "2"}), "is for ranks on other hosts"},
      {with_program({"--grace", "soon"}), "soon"},
      {with_program({"--linger", "long"}), "long"},
      {with_program({"--bind", "core"}), "did you mean cores?"},
      {with_program({"--master-port", "65536"}), "65536 is outside 1..65535"},
      {with_program({"--nnodes", "2"}), "--nnodes 2 needs --node-rank and --master"},
      {with_program({"--nnodes", "2", "--node-rank", "2", "--master", "a"}), "it is 2, and --nnodes is 2"},
      {with_program({"--nnodes", "2", "--node-rank", "0", "--master", "a", "--restarts", "1"}), "works on one host"},
      {with_program({"--nnodes", "2", "--node-rank", "0", "--master", "a:b"}), "--master is no address"},
      {with_program({"--nnodes", "2", "--node-rank", "0", "--master", ":5"}), "--master is no address"},
      {with_program({"--hosts", "a", "--hostfile", "f"}), "leave one out"},
      {with_program({"--hosts", "a,b", "--nnodes", "2"}), "leave --nnodes and --node-rank out"},
      {with_program({"--hosts", "a:0"}), "not a number of ranks for a host"},
      {with_program({"--hosts", "a", "--env", "NO_SUCH_VARIABLE"}), "--env NO_SUCH_VARIABLE is not set here"},
      {with_program({"--hosts", "a", "--env", "=x"}), "--env is no variable"},
      {with_program({"--hosts", "a", "--ssh", "'"}), "a quote does not end"},
      {with_program({"--hosts", "a", "--ssh", " "}), "--ssh names no command"},
      {with_program({"--ssh", "x"}), "--ssh is for ranks on other hosts"},
      {with_program({"--env", "x"}), "--env is for ranks on other hosts"},
      {with_program({"--remote-weft", "x"}), "--remote-weft is for ranks on other hosts"},
      {with_program({"--hostfile", "no/such/file"}), "no/such/file"},
      {with_program({"--json", "no/such/folder/x.json"}), "the folder for --json does not exist"},
  };
  for (const auto& [words, reason] : cases) {
    const std::string message = refusal(parse_run_options, words);
    EXPECT_NE(message.find(reason), std::string::npos) << "wanted: " << reason << "\ngot: " << message;
  }
}

}  // namespace
}  // namespace weft::cli
