#include "weft/plan/plan.h"

#include <gtest/gtest.h>

#include <tuple>

#include "weft/plan/example_tables_impl.h"

namespace weft::plan {
namespace {

config::Resolved small_config() {
  config::Resolved config;
  config.gradient_accumulation_steps = 4;
  config.zero_optimization.stage = 2;
  return config;
}

TEST(Plan, TakesItsOptionsFromAConfig) {
  config::Resolved config = small_config();
  config.zero_optimization.reduce_bucket_size = 12345;
  config.zero_optimization.overlap_comm = true;
  config.zero_optimization.stage3_max_live_parameters = 678;
  config.communication_data_type = config::Dtype::kFp16;
  config.data_types.grad_accum_dtype = config::Dtype::kFp32;
  config.weft.reduce_each = config::ReduceEach::kMicroStep;
  config.weft.compress = config::Compress::kInt8;
  config.managed_gradient_accumulation = false;
  const PlanOptions expected{.layout = {.world = 8, .bucket_elements = 12345},
                             .stage = 2,
                             .accumulation_steps = 4,
                             .counts_micro_steps = false,
                             .overlap = true,
                             .gradient_dtype = Dtype::kFp32,
                             .wire_dtype = Dtype::kFp16,
                             .shard_update = true,
                             .reduce_each = true,
                             .compress = true,
                             .live_elements = 678};
  EXPECT_EQ(options_from(config, 8), expected);
}

TEST(Plan, AHostsCopyIsForGroupsThatDivideTheWorldInStage3) {
  config::Resolved config = small_config();
  config.zero_optimization.zero_hpz_partition_size = 4;
  EXPECT_EQ(options_from(config, 8).host_copy, 0) << "not in stage 2";
  config.zero_optimization.stage = 3;
  EXPECT_EQ(options_from(config, 8).host_copy, 4);
  EXPECT_EQ(options_from(config, 8).layout.persistent_below, 0);
  for (const int world : {1, 2, 4, 6}) EXPECT_EQ(options_from(config, world).host_copy, 0) << world;
}

// stage3_model_persistence_threshold is of the whole world: each rank has its share of what may stay.
TEST(Plan, WhatStaysIsCappedByTheThresholdOverTheRanks) {
  config::Resolved config = small_config();
  config.zero_optimization.stage = 3;
  EXPECT_EQ(options_from(config, 4).layout.max_persistent_elements, INT64_MAX / 4) << "no limit to speak of";
  config.zero_optimization.stage3_model_persistence_threshold = 60;
  EXPECT_EQ(options_from(config, 4).layout.max_persistent_elements, 15);
  const auto num_staying = [&](int world) {
    std::vector<Parameter> parameters;
    for (const char* name : {"a", "b", "c", "d"}) parameters.push_back({.name = name, .shape = {10}});
    const Plan plan = make_plan(ParameterTable(std::move(parameters)), options_from(config, world));
    size_t out = 0;
    for (const Bucket& bucket : plan.layout.buckets) out += bucket.persistent ? bucket.places.size() : 0;
    return out;
  };
  EXPECT_EQ(num_staying(1), 4U);
  EXPECT_EQ(num_staying(2), 3U);
  EXPECT_EQ(num_staying(4), 1U);
  EXPECT_EQ(num_staying(8), 0U);
}

TEST(Plan, WithoutOverlapThereIsNoSmallFirstBucket) {
  EXPECT_EQ(options_from(small_config(), 2).layout.first_bucket_bytes, 0);
}

TEST(Plan, KnowsWhatOptimizersKeep) {
  const std::tuple<std::optional<std::string>, bool, int64_t> cases[] = {
      {std::nullopt, false, 8}, {"AdamW", false, 8},
      {"adam", true, 4},        {"Lamb", false, 8},
      {"Adagrad", false, 4},    {"LION", false, 4},
      {"Muon", false, 4},       {"RAdam", false, 8},
      {"SGD", false, 0},        {"FusedAdam", false, 8},
      {"FusedLamb", false, 8},  {"FusedLion", false, 4},
      {"CPULion", false, 4},    {"DeepSpeedCPULion", true, 2},
      {"CPUAdagrad", false, 4}, {"DeepSpeedCPUAdagrad", false, 4}};
  for (const auto& [type, half_states, bytes] : cases) {
    config::Resolved config = small_config();
    config.optimizer.type = type;
    config.bf16.bf16_optimizer_states = half_states;
    EXPECT_EQ(options_from(config, 1).optimizer.state_bytes_per_element, bytes) << type.value_or("none");
  }
}

TEST(Plan, SgdKeepsAMomentOnlyWithMomentum) {
  config::Resolved config = small_config();
  config.optimizer.type = "SGD";
  config.optimizer.params = config::Value{.kind = config::Kind::kObject, .members = {}};
  const auto with_momentum = [&](double momentum) {
    config.optimizer.params->members = {{"momentum", {}, config::real_value(momentum)}};
    return options_from(config, 1).optimizer.state_bytes_per_element;
  };
  EXPECT_EQ(with_momentum(0.9), 4);
  EXPECT_EQ(with_momentum(0), 0);
}

TEST(Plan, Bf16MastersNeedNoFp32Copy) {
  config::Resolved config = small_config();
  EXPECT_TRUE(options_from(config, 1).optimizer.fp32_copy);
  config.bf16.bf16_master_weights_and_grads = true;
  EXPECT_TRUE(options_from(config, 1).optimizer.fp32_copy) << "without bf16 the word means nothing";
  config.bf16.enabled = true;
  EXPECT_FALSE(options_from(config, 1).optimizer.fp32_copy);
}

TEST(Plan, GradientsTravelInTheTypeTheyAreKeptIn) {
  const Bucket bucket{.dtype = Dtype::kBf16};
  EXPECT_EQ(gradient_dtype({}, bucket), Dtype::kBf16);
  EXPECT_EQ(wire_dtype({}, bucket), Dtype::kBf16);
  EXPECT_EQ(wire_dtype({.gradient_dtype = Dtype::kFp32}, bucket), Dtype::kFp32);
  EXPECT_EQ(wire_dtype({.gradient_dtype = Dtype::kFp32, .wire_dtype = Dtype::kFp16}, bucket), Dtype::kFp16);
}

TEST(Plan, RefusesOptionsOutOfRange) {
  const auto expect_refused = [](const PlanOptions& options, const std::string& what, const std::string& fix) {
    try {
      make_plan(toy_table(), options);
      ADD_FAILURE() << "not refused: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_EQ(error.text().what, what);
      EXPECT_EQ(error.text().fix, fix);
    }
  };
  expect_refused({.stage = 4}, "zero_optimization.stage is 4", "set zero_optimization.stage from 0 to 3");
  expect_refused({.stage = -1}, "zero_optimization.stage is -1", "set zero_optimization.stage from 0 to 3");
  const std::string steps = "set gradient_accumulation_steps from 1 to 16384";
  expect_refused({.accumulation_steps = 0}, "gradient_accumulation_steps is 0", steps);
  expect_refused({.accumulation_steps = 16385}, "gradient_accumulation_steps is 16385", steps);
  expect_refused({.optimizer = {.state_bytes_per_element = -1}}, "state_bytes_per_element is -1",
                 "set state_bytes_per_element from 0 to 1024");
  expect_refused({.live_elements = -1}, "stage3_max_live_parameters is -1",
                 "set stage3_max_live_parameters from 0 to 9223372036854775807");
}

TEST(Plan, AConfigOutOfRangeIsNotCutShort) {
  config::Resolved config = small_config();
  config.gradient_accumulation_steps = 4'294'967'297;
  EXPECT_THROW(options_from(config, 1), Error);
  config = small_config();
  config.zero_optimization.stage = 4'294'967'296;
  EXPECT_THROW(options_from(config, 1), Error);
}

}  // namespace
}  // namespace weft::plan
