#include "weft/monitor/sinks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "weft/base/crash_env.h"
#include "weft/base/error.h"

namespace weft {
namespace {

config::Resolved both() {
  config::Resolved out;
  out.tensorboard = {.enabled = true, .output_path = "tb", .job_name = "job"};
  out.csv_monitor = {.enabled = true, .output_path = "csv/", .job_name = "job"};
  return out;
}

TEST(Scalars, HaveDeepSpeedsNamesWhereItHasOne) {
  const StepScalars scalars = scalars_of({.step = 3,
                                          .samples = 96,
                                          .loss = 2.5,
                                          .lr = 0.1,
                                          .grad_norm = 7,
                                          .loss_scale = 1024,
                                          .forward_ms = 1,
                                          .backward_ms = 2,
                                          .optimizer_ms = 3,
                                          .exposed_comm_ms = 4});
  std::vector<std::pair<std::string, double>> found;
  for (const Scalar& scalar : scalars.values) found.emplace_back(scalar.tag, scalar.value);
  EXPECT_EQ(scalars.x, 96);
  EXPECT_EQ(found, (std::vector<std::pair<std::string, double>>{{"Train/Samples/train_loss", 2.5},
                                                                {"Train/Samples/lr", 0.1},
                                                                {"Train/Weft/grad_norm", 7},
                                                                {"Train/Samples/loss_scale", 1024},
                                                                {"Train/Samples/elapsed_time_ms_forward", 1},
                                                                {"Train/Samples/elapsed_time_ms_backward", 2},
                                                                {"Train/Samples/elapsed_time_ms_step", 3},
                                                                {"Train/Weft/exposed_comm_ms", 4}}));
  EXPECT_EQ(scalars_of({.step = 3}).x, 3) << "nobody counts samples";
}

TEST(Sinks, AreThoseOfTheConfig) {
  CrashEnv env;
  MonitorSinks sinks(env, both(), {.run_folder = "run"});
  sinks.add({.step = 1, .samples = 8, .loss = 2});
  EXPECT_EQ(env.list("tb/job").size(), 1U);
  EXPECT_EQ(read_file(env, "csv/job/Train_Samples_train_loss.csv", 1000), "step,train_loss\n8,2\n");
  EXPECT_FALSE(env.stat("run"));
}

TEST(Sinks, NoneUnlessAskedFor) {
  CrashEnv env;
  MonitorSinks sinks(env, {}, {.run_folder = "run"});
  sinks.add({.step = 1, .loss = 2});
  EXPECT_TRUE(env.list(".").empty());
}

TEST(Sinks, WithoutAnOutputPathAreBelowTheWorkingFolder) {
  CrashEnv env;
  config::Resolved config;
  config.tensorboard.enabled = config.csv_monitor.enabled = true;
  config.csv_monitor.job_name = "mine";
  MonitorSinks sinks(env, config, {});
  sinks.add({.step = 1, .loss = 2});
  EXPECT_EQ(env.list("DeepSpeedJobName").size(), 1U);
  EXPECT_EQ(env.list("mine"), (std::vector<std::string>{"Train_Samples_train_loss.csv"}));
}

TEST(Sinks, AFolderThatCannotBeHadCostsThatSinkOnly) {
  CrashEnv env;
  write_file(env, "tb", bytes_of("a file"));
  MonitorSinks sinks(env, both(), {.run_folder = "run"});
  sinks.add({.step = 1, .loss = 2});
  EXPECT_EQ(read_file(env, "tb", 100), "a file");
  EXPECT_TRUE(env.stat("csv/job/Train_Samples_train_loss.csv"));
}

TEST(Sinks, KeepWhatWandbWillAskFor) {
  CrashEnv env;
  env.make_folders("run");
  config::Resolved config;
  config.wandb = {.enabled = true, .group = "g\"1", .team = std::nullopt, .project = "p"};
  const MonitorSinks sinks(env, config, {.run_folder = "run"});
  const auto facts = nlohmann::json::parse(read_file(env, "run/wandb.json", 1000));
  EXPECT_EQ(facts, (nlohmann::json{{"schema", 1}, {"project", "p"}, {"group", "g\"1"}, {"team", nullptr}}));
  EXPECT_NO_THROW(MonitorSinks(env, config, {.run_folder = "not/there"}));
}

}  // namespace
}  // namespace weft
