// What the engine takes from a config, and what it says about the rest.
#include "weft/engine/settings.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"
#include "tests/support/text.h"
#include "weft/base/env.h"
#include "weft/engine/engine.h"

namespace weft {
namespace {

using test::count_of;

TEST(EngineSettings, WhatHasNoEffectIsSaidOnceHoweverOftenItIsRead) {
  const test::TempDir dir;
  write_file(Env::posix(), dir / "ds.json", bytes_of(std::string_view(R"({"train_batch_size": 2, "zero_optimization": {
    "stage": 2, "reduce_scatter": true, "round_robin_gradients": true, "sub_group_size": 1000000000,
    "allgather_bucket_size": 200000000, "offload_optimizer": {"device": "cpu"}}})")));
  testing::internal::CaptureStderr();
  for (int reads = 0; reads < 2; ++reads) read_engine_config(dir / "ds.json", 1);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(said, "has no effect in weft"), 2U) << said;
  EXPECT_EQ(count_of(said, "ds.json:2:41: zero_optimization.round_robin_gradients has no effect in weft: each rank "),
            1U)
      << said;
  EXPECT_EQ(count_of(said, "zero_optimization.allgather_bucket_size has no effect"), 1U) << said;
  EXPECT_EQ(count_of(said, "[WARN] "), 1U) << said;
  EXPECT_EQ(count_of(said, "weft does not act on zero_optimization.offload_optimizer yet"), 1U) << said;
}

at::ScalarType buffer_type(std::optional<config::Dtype> wanted, bool is_bf16) {
  config::Resolved config;
  config.bf16.enabled = is_bf16;
  config.data_types.buffer_dtype = wanted;
  const engine::ModelTensors model{.parameters = {}, .buffers = {{"mean", at::ones({2})}}};
  engine::convert_the_rest(model, config);
  return model.buffers[0].second.scalar_type();
}

TEST(EngineSettings, BuffersHaveTheTypeTheConfigGivesElseThatOfThePrecision) {
  EXPECT_EQ(buffer_type(std::nullopt, false), at::kFloat);
  EXPECT_EQ(buffer_type(std::nullopt, true), at::kBFloat16);
  EXPECT_EQ(buffer_type(config::Dtype::kFp32, true), at::kFloat);
  EXPECT_EQ(buffer_type(config::Dtype::kFp16, true), at::kHalf);
  EXPECT_EQ(buffer_type(config::Dtype::kBf16, false), at::kBFloat16);
}

}  // namespace
}  // namespace weft
