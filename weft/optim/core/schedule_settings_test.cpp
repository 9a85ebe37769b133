#include "weft/optim/core/schedule_settings.h"

#include <gtest/gtest.h>

#include "weft/config/setting.h"
#include "weft/optim/core/test_refusal_impl.h"

namespace weft::optim {
namespace {

std::string schedule_refusal(std::string_view type, std::string_view params, size_t num_groups = 1) {
  return refusal_of([&] { read_schedule({.type = std::string(type), .params = params_of(params)}, num_groups); });
}

constexpr RefusedParams kRefusedSchedules[] = {
    {"WarmupLr", "{}", "did you mean WarmupLR?"},
    {"StepLR", "{}", "known: WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle"},
    {"WarmupLR", "{warmup_num_steps: 0}", "warmup_num_steps is 0, expected a positive integer"},
    {"WarmupLR", "{warmup_num_steps: 2.5}", "warmup_num_steps is 2.5, expected an integer"},
    {"WarmupLR", "{warmup_num_steps: \"auto\"}", "warmup_num_steps is \"auto\""},
    {"WarmupLR", "{warmup_type: \"cosine\"}", "warmup_type is 'cosine', expected log or linear"},
    {"WarmupLR", "{warmup_steps: 3}", "warmup_steps is no argument of WarmupLR"},
    {"WarmupLR", "{warmup_min_lr: [1, 2, 3]}", "expected a number, or a list of 1"},
    {"WarmupDecayLR", "{}", "total_num_steps is missing"},
    {"WarmupCosineLR", "{warmup_min_ratio: true}", "warmup_min_ratio is true, expected a number"},
    {"OneCycle", "{cycle_min_lr: 1}", "cycle_max_lr is missing"},
    {"OneCycle", "{cycle_min_lr: 1, cycle_max_lr: 2, cycle_first_step_size: 0}", "cycle_first_step_size is 0"},
    {"OneCycle", "{cycle_min_lr: 1, cycle_max_lr: 2, cycle_momentum: 1}",
     "cycle_momentum is 1, expected true or false"},
    {"LRRangeTest", "{lr_range_test_step_size: -4}", "lr_range_test_step_size is -4"},
    {"CosineAnnealingLR", "{T_max: 0}", "T_max is 0"},
    {"LinearLR", "{total_iters: 0}", "total_iters is 0"},
};

TEST(ScheduleSettings, RefusesWhatItCannotUse) {
  for (const RefusedParams& r : kRefusedSchedules) {
    EXPECT_NE(schedule_refusal(r.type, r.params).find(r.said), std::string::npos) << schedule_refusal(r.type, r.params);
  }
}

TEST(ScheduleSettings, SaysEverythingAtOnce) {
  const std::string said = schedule_refusal("WarmupDecayLR", "{warmup_num_steps: -1, warmup_typ: 3}");
  EXPECT_NE(said.find("total_num_steps is missing"), std::string::npos) << said;
  EXPECT_NE(said.find("warmup_num_steps is -1"), std::string::npos) << said;
  EXPECT_NE(said.find("did you mean warmup_type?"), std::string::npos) << said;
}

TEST(ScheduleSettings, AListHasOneValueForEachGroup) {
  EXPECT_EQ(schedule_refusal("WarmupLR", "{warmup_min_lr: [1, 2]}", 2), "(none)");
  EXPECT_NE(schedule_refusal("WarmupLR", "{warmup_min_lr: [1, 2]}", 3), "(none)");
}

TEST(ScheduleSettings, NullIsAsIfAbsent) {
  EXPECT_EQ(schedule_refusal("WarmupLR", "{warmup_max_lr: null}"), "(none)");
  EXPECT_NE(schedule_refusal("WarmupDecayLR", "{total_num_steps: null}"), "(none)");
}

// The table that `weft check` judges arguments by must know what is read here.
TEST(ScheduleSettings, EveryArgumentOfTheTableIsRead) {
  for (const config::ArgumentSet& set : config::argument_sets()) {
    if (set.of != "scheduler") continue;
    for (const std::string_view type : set.types) {
      for (const config::Argument& argument : set.arguments) {
        const std::string said = schedule_refusal(type, std::string("{") + std::string(argument.name) + ": {}}");
        EXPECT_EQ(said.find("is no argument"), std::string::npos) << said;
        EXPECT_NE(said, "(none)") << type << " ignores " << argument.name;
      }
    }
  }
}

}  // namespace
}  // namespace weft::optim
