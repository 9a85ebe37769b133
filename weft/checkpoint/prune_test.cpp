#include "weft/checkpoint/prune.h"

#include <gtest/gtest.h>

#include "weft/base/crash_env.h"
#include "weft/checkpoint/store_example_impl.h"

namespace weft::checkpoint {
namespace {

using Steps = std::vector<int64_t>;

// Steps 6 to 1 with losses 6: 0.5, 5: 0.2, 4: 0.9, 3: 0.2, 2: none, 1: 0.1.
std::vector<Manifest> six_steps() {
  std::vector<Manifest> out;
  const std::vector<std::optional<double>> losses = {0.5, 0.2, 0.9, 0.2, std::nullopt, 0.1};
  for (const auto& loss : losses) {
    Manifest manifest{.step = 6 - static_cast<int64_t>(out.size())};
    if (loss) manifest.metrics["loss"] = *loss;
    out.push_back(manifest);
  }
  return out;
}

TEST(Prune, KeepsWhatThePolicySays) {
  EXPECT_EQ(steps_to_prune(six_steps(), {.keep_last = 2}), (Steps{4, 3, 2, 1}));
  EXPECT_EQ(steps_to_prune(six_steps(), {.keep_last = 9}), Steps{});
  EXPECT_EQ(steps_to_prune(six_steps(), {.keep_last = 1, .keep_every = 2}), (Steps{5, 3, 1}));
  EXPECT_EQ(steps_to_prune(six_steps(), {.metric = "loss", .keep_best = 2}), (Steps{4, 3, 2}));
  EXPECT_EQ(steps_to_prune(six_steps(), {.metric = "loss", .keep_best = 1, .lower_is_better = false}),
            (Steps{5, 3, 2, 1}));
  EXPECT_EQ(steps_to_prune({}, {.keep_last = 1}), Steps{});
}

TEST(Prune, TheNewestStaysWhateverThePolicySays) {
  EXPECT_EQ(steps_to_prune(six_steps(), {.keep_last = 0}), (Steps{5, 4, 3, 2, 1}));
  EXPECT_EQ(steps_to_prune(six_steps(), {.keep_last = -3}), (Steps{5, 4, 3, 2, 1}));
}

TEST(Prune, RemovesFoldersAndSurvivesACrash) {
  CrashEnv env;
  for (const int64_t step : {1, 2, 3, 4}) save_example(env, "ckpt", {.step = step});
  EXPECT_EQ(prune_store(env, "ckpt", {.keep_last = 2}), (Steps{2, 1}));
  EXPECT_EQ(env.list("ckpt"), (std::vector<std::string>{"latest", "step_00000003", "step_00000004"}));
  env.crash();
  EXPECT_EQ(find_newest(env, "ckpt", Check::kEveryBlock)->step, 4);
  EXPECT_TRUE(prune_store(env, "ckpt", {.keep_last = 2}).empty());
}

// A damaged step is neither counted as one of the last nor removed: it may be all that is left of something.
TEST(Prune, LeavesDamagedStepsAloneAndDoesNotCountThem) {
  CrashEnv env;
  for (const int64_t step : {1, 2, 3}) save_example(env, "ckpt", {.step = step});
  env.remove_file("ckpt/step_00000003/manifest.json");
  EXPECT_EQ(prune_store(env, "ckpt", {.keep_last = 1}), Steps{1});
  EXPECT_EQ(env.list("ckpt"), (std::vector<std::string>{"latest", "step_00000002", "step_00000003"}));
}

// A run that went back to step 2 and saved anew: what it left ahead of itself counts last.
TEST(Prune, StepsOfAnAbandonedFutureGoFirst) {
  CrashEnv env;
  for (const int64_t step : {1, 2, 3, 4, 2}) save_example(env, "ckpt", {.step = step});
  EXPECT_EQ(prune_store(env, "ckpt", {.keep_last = 2}), (Steps{4, 3}));
}

}  // namespace
}  // namespace weft::checkpoint
