#include "weft/doctor/rules/fixer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "weft/doctor/rules/preset.h"
#include "weft/doctor/rules/symptom.h"
#include "weft/doctor/rules/test_facts_impl.h"

namespace weft::doctor {
namespace {

using config::Language;
using config::Severity;

config::Document document(const std::string& text) {
  return config::parse_document(config::checked_source("ds.json", text));
}

TEST(Fixer, RepairsWhatIsMechanicalAndKeepsTheRest) {
  const std::string text = R"({
  // eight GPUs
  "train_batch_size": 256,
  "train_micro_batch_size_per_gpu": 8,   # per GPU
  "gradient_accumulation_steps": 4,
  "gradient_cliping": 1.0,
  "zero_optimization": {
    "stage": 2,
    "overlap_comm": false, // was slow
    "use_dynamic_tiling": true,
    "reduce_bucket_size": 5e8
  },
  "steps_per_print": 2000
}
)";
  const FixResult result = fix(document(text), {.facts = world(8)});
  EXPECT_EQ(result.text, R"({
  // eight GPUs
  "train_batch_size": 256,
  "train_micro_batch_size_per_gpu": 8,   # per GPU
  "gradient_accumulation_steps": 4,
  "gradient_clipping": 1.0,
  "zero_optimization": {
    "stage": 2,
    "overlap_comm": true, // was slow
    "reduce_bucket_size": 200000000
  },
  "steps_per_print": 50
}
)");
  EXPECT_EQ(result.fixed.size(), 5U);
  const bool errors_left =
      std::any_of(result.left.begin(), result.left.end(), [](const auto& p) { return p.severity == Severity::kError; });
  EXPECT_FALSE(errors_left);
}

TEST(Fixer, LeavesAGoodFileAlone) {
  const std::string text = "{\"train_micro_batch_size_per_gpu\": 8, \"bf16\": {\"enabled\": true}}\n";
  const FixResult result = fix(document(text), {.facts = world(8)});
  EXPECT_EQ(result.text, text);
  EXPECT_TRUE(result.fixed.empty());
}

TEST(Fixer, WhatItFixedIsGone) {
  const std::string text =
      R"({"train_batch_size": 10, "train_micro_batch_size_per_gpu": 4, "fp16": {"enabled": true}, "bf16": {"enabled": true},
    "amp": {}, "optimizer": {"type": "FusedAdam", "params": {"lr": 1e-4, "max_grad_norm": 0.5}},
    "zero_optimization": {"stage": 2, "cpu_offload": true, "stage3_gather_fp16_weights_on_model_save": true, "find_unused_parameters": false}})";
  const FixResult result = fix(document(text), {.facts = world(2)});
  const auto again = config::read_config(document(result.text), world(2));
  const Diagnosis diagnosis = diagnose(again, {});
  for (const auto& fixed : result.fixed) {
    for (const auto& now : diagnosis.problems)
      EXPECT_FALSE(now.rule == fixed.rule && now.path == fixed.path) << now.rule << " " << now.path;
  }
  EXPECT_EQ(diagnosis.count(Severity::kError), 0) << result.text;
}

TEST(Preset, HasNoProblemOfItsOwn) {
  for (const Preset preset : {Preset::kStandard, Preset::kHighPerformance}) {
    for (const int64_t ranks : {1, 8, 64}) {
      for (const double params : {0.0, 7e9, 70e9}) {
        Machine machine{.gpu_bytes = int64_t{80} << 30, .link = Link::kNvlink};
        if (params > 0) machine.params = params;
        for (const Language language : {Language::kEnglish, Language::kChinese}) {
          const auto reading =
              config::read_config(document(preset_text(preset, ranks, machine, language)), world(ranks));
          machine.params.reset();  // whether a model fits is not the preset's doing
          const Diagnosis diagnosis = diagnose(reading, machine);
          EXPECT_EQ(diagnosis.count(Severity::kError) + diagnosis.count(Severity::kWarning), 0)
              << diagnosis.problems.front().message.en;
        }
      }
    }
  }
}

TEST(Preset, FollowsWorldAndMemory) {
  const auto reading = [](Preset preset, int64_t ranks, int64_t gib) {
    return config::read_config(document(preset_text(preset, ranks, {.gpu_bytes = gib << 30}, Language::kEnglish)),
                               world(ranks))
        .resolved;
  };
  EXPECT_EQ(reading(Preset::kStandard, 8, 24).train_batch_size, 256);
  EXPECT_EQ(reading(Preset::kHighPerformance, 8, 40).train_batch_size, 512);
  EXPECT_EQ(reading(Preset::kHighPerformance, 8, 80).train_micro_batch_size_per_gpu, 32);
  EXPECT_EQ(reading(Preset::kStandard, 2, 16).train_batch_size, 32);
}

TEST(Symptom, IsSpecificToTheConfig) {
  const auto reading = config::read_config(
      document(R"({"train_batch_size": 256, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 4,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.0003}}, "zero_optimization": {"stage": 2, "overlap_comm": true}})"),
      world(8));
  const Machine machine;
  const Subject subject{reading, machine};
  EXPECT_EQ(advice_for(Symptom::kOutOfMemory, &subject)[0].what.en,
            "train_micro_batch_size_per_gpu 8 → 4, gradient_accumulation_steps 4 → 8");
  EXPECT_EQ(advice_for(Symptom::kCommError, &subject)[0].what.en,
            "set zero_optimization.overlap_comm to false (now true)");
  EXPECT_EQ(advice_for(Symptom::kDiverges, &subject)[0].what.en, "optimizer.params.lr 0.0003 → 0.00015");
  EXPECT_EQ(advice_for(Symptom::kSlow, &subject)[0].path, "wall_clock_breakdown");
}

TEST(Symptom, HasGeneralAdviceWithoutAConfig) {
  for (const Symptom symptom : {Symptom::kOutOfMemory, Symptom::kCommError, Symptom::kDiverges, Symptom::kSlow}) {
    const auto steps = advice_for(symptom, nullptr);
    EXPECT_GE(steps.size(), 4U);
    for (const Step& step : steps) EXPECT_FALSE(step.what.zh.empty() || step.why.zh.empty() || step.why.en.empty());
  }
}

}  // namespace
}  // namespace weft::doctor
