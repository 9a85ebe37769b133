// What weft says of optimizers, schedules and arguments that DeepSpeed's configs can have and weft has not.
#include <gtest/gtest.h>

#include <algorithm>

#include "weft/base/text.h"
#include "weft/config/offered.h"
#include "weft/config/optimizer_names.h"
#include "weft/config/test_reading_impl.h"

namespace weft::config {
namespace {

Reading read_with(std::string_view of, std::string_view type, std::string_view params,
                  std::optional<Version> version = {}) {
  return read_text(
      cat("{\"train_batch_size\": 8, \"", of, "\": {\"type\": \"", type, "\", \"params\": {", params, "}}}"), {},
      version);
}

// "rule path" of each error.
std::string errors_of(const Reading& reading) {
  std::vector<std::string> out;
  for (const Problem& problem : reading.problems) {
    if (problem.severity == Severity::kError) out.push_back(cat(problem.rule, " ", problem.path));
  }
  return join(out, ", ");
}

std::string optimizer(std::string_view type, std::string_view params = "", std::optional<Version> version = {}) {
  return errors_of(read_with("optimizer", type, params, version));
}
std::string scheduler(std::string_view type, std::string_view params = "", std::optional<Version> version = {}) {
  return errors_of(read_with("scheduler", type, params, version));
}

constexpr Version kWithOneBit = {0, 18, 0};

TEST(Offered, TypesThatWeftHasNotAreErrors) {
  for (const char* type : {"Muon", "muon", "MuAdam", "muadamw", "MuSGD", "Adafactor", "Adadelta", "Adamax", "ASGD",
                           "LBFGS", "NAdam", "RAdam", "RMSprop", "Rprop", "SparseAdam"}) {
    EXPECT_EQ(optimizer(type), "arguments/not-offered optimizer.type") << type;
    EXPECT_EQ(optimizer(type, "", kWithOneBit), "arguments/not-offered optimizer.type") << type;
  }
  EXPECT_EQ(scheduler("StepLR", "\"step_size\": 5"), "arguments/not-offered scheduler.type");
}

TEST(Offered, TypesThatWeftHasAreNot) {
  for (const char* type :
       {"Adam", "adamw", "ADAGRAD", "Lamb", "lion", "SGD", "FusedAdam", "CPUAdagrad", "DeepSpeedCPULion"}) {
    EXPECT_EQ(optimizer(type, "\"lr\": 1e-4"), "") << type;
  }
  EXPECT_EQ(scheduler("LinearLR", "\"start_factor\": 0.5, \"total_iters\": 10"), "");
  EXPECT_EQ(scheduler("CosineAnnealingLR", "\"T_max\": 10, \"eta_min\": null"), "");
  for (const std::string_view type : offered_optimizers()) EXPECT_TRUE(is_offered("optimizer", type)) << type;
  for (const std::string_view type : offered_schedules()) EXPECT_TRUE(is_offered("scheduler", type)) << type;
  EXPECT_FALSE(is_offered("optimizer", "sgd")) << "torch has no such name";
}

TEST(Offered, ARemovedOptimizerIsSaidOnce) {
  EXPECT_EQ(optimizer("OneBitAdam"), "arguments/removed-optimizer optimizer.type");
  EXPECT_EQ(optimizer("OneBitAdam", "", kWithOneBit), "arguments/not-offered optimizer.type");
}

TEST(Offered, OnlyWhatWeftHasIsSuggested) {
  struct {
    std::string_view of, type, suggested;
  } const cases[] = {{"optimizer", "Lionn", "\"Lion\""},
                     {"optimizer", "FusedAdamW", "\"AdamW\""},
                     {"optimizer", "sgd", "\"SGD\""},
                     {"optimizer", "MuonX", ""},
                     {"optimizer", "RMSprob", ""},
                     {"optimizer", "qqqqqqqqqq", ""},
                     {"scheduler", "warmuplr", "\"WarmupLR\""},
                     {"scheduler", "StepLRs", ""}};
  for (const auto& [of, type, suggested] : cases) {
    const Reading reading = read_with(of, type, "");
    ASSERT_FALSE(reading.problems.empty()) << type;
    const Problem& problem = reading.problems.front();
    EXPECT_EQ(problem.rule, "arguments/unknown-type") << type;
    EXPECT_EQ(problem.suggested, suggested) << type;
    EXPECT_EQ(problem.edits.empty(), suggested.empty()) << type;
  }
  EXPECT_TRUE(read_with("optimizer", "MuonX", "")
                  .problems.front()
                  .fix.en.starts_with("if Muon is meant, weft does not have it (it makes whole matrices orthogonal"));
}

TEST(Offered, SaysWhyAndWhatToUseInstead) {
  const Reading reading = read_with("optimizer", "Muon", "\"lr\": 0.02");
  ASSERT_EQ(reading.problems.size(), 1U);
  const Problem& problem = reading.problems.front();
  EXPECT_TRUE(
      problem.message.en.starts_with("weft does not have the optimizer Muon: it makes whole matrices orthogonal"));
  EXPECT_TRUE(problem.message.zh.starts_with("weft 没有优化器 Muon：它把整个矩阵正交化"));
  EXPECT_TRUE(problem.fix.en.starts_with("use AdamW, "));
  EXPECT_FALSE(problem.deepspeed_refuses);
  EXPECT_EQ(reading.document.source->where(problem.span), "ds.json:1:47");
  EXPECT_EQ(absence_of("optimizer", "RMSprop").why.en, "it has Adagrad, Adam, AdamW, Lamb, Lion, SGD");
  EXPECT_NE(absence_of("optimizer", "RMSprop").instead.en.find("one of your own"), std::string::npos);
}

TEST(Offered, AClassTakesTheArgumentsOfItsType) {
  for (const auto& [name, type] : kOptimizerClasses) {
    for (const char* argument :
         {"eps", "weight_decay", "max_coeff", "lr_decay", "adam_w_mode", "nesterov", "momentum"}) {
      const std::string params = cat("\"", argument, "\": 0.5");
      EXPECT_EQ(optimizer(name, params), optimizer(type, params)) << name << " " << argument;
    }
  }
  EXPECT_EQ(optimizer("CPULion", "\"lr\": 0.001, \"eps\": 1e-8"), "arguments/unknown optimizer.params.eps");
}

TEST(Offered, ArgumentsThatAskForWhatWeftHasNotAreErrors) {
  for (const char* params : {"\"amsgrad\": true", "\"maximize\": true", "\"fp32_optimizer_states\": false"}) {
    const std::string said = optimizer("AdamW", params);
    EXPECT_TRUE(said.starts_with("arguments/not-offered optimizer.params.")) << params << ": " << said;
  }
  EXPECT_EQ(optimizer("AdamW", "\"amsgrad\": false, \"maximize\": false, \"fp32_optimizer_states\": true"), "");
  EXPECT_EQ(scheduler("ConstantLR", "\"last_epoch\": -1"), "arguments/not-offered scheduler.params.last_epoch");
}

struct Judged {
  std::string_view type, params, said;
};

TEST(ArgumentValues, OfOptimizersAreLookedAt) {
  constexpr std::string_view kLr = "arguments/value optimizer.params.lr";
  for (const auto& [type, params, said] :
       {Judged{"AdamW", "\"lr\": -0.001", kLr}, Judged{"AdamW", "\"lr\": \"1e-4\"", kLr},
        Judged{"SGD", "\"lr\": [1]", kLr}, Judged{"AdamW", "\"lr\": 0, \"eps\": null", ""},
        Judged{"Lion", "\"betas\": [0.9, 1]", "arguments/value optimizer.params.betas"},
        Judged{"Adam", "\"adam_w_mode\": 1", "arguments/value optimizer.params.adam_w_mode"},
        Judged{"SGD", "\"nesterov\": true", "arguments/value optimizer.params.nesterov"},
        Judged{"SGD", "\"nesterov\": true, \"momentum\": 0.9", ""},
        Judged{"Lamb", "\"min_coeff\": 11", "arguments/value optimizer.params.min_coeff"},
        Judged{"Lamb", "\"max_coeff\": 0.001", "arguments/value optimizer.params.max_coeff"},
        Judged{"SGD", "\"beta\": 1", "arguments/unknown optimizer.params.beta"}}) {
    EXPECT_EQ(optimizer(type, params), said) << type << " " << params;
  }
}

TEST(ArgumentValues, OfSchedulesAreLookedAt) {
  for (const auto& [type, params, said] :
       {Judged{"WarmupLR", "\"warmup_type\": \"cosine\"", "arguments/value scheduler.params.warmup_type"},
        Judged{"WarmupLR", "\"warmup_num_steps\": 1.5", "arguments/value scheduler.params.warmup_num_steps"},
        Judged{"WarmupLR", "\"warmup_num_steps\": 0", "arguments/warmup-steps scheduler.params.warmup_num_steps"},
        Judged{"WarmupLR", "\"warmup_min_lr\": [0, 1], \"warmup_max_lr\": null", ""},
        Judged{"WarmupDecayLR", "\"total_num_steps\": null", "arguments/missing scheduler.params.total_num_steps"},
        Judged{"LinearLR", "\"total_iters\": 0", "arguments/value scheduler.params.total_iters"},
        Judged{"ConstantLR", "\"total_iters\": 0", ""}}) {
    EXPECT_EQ(scheduler(type, params), said) << type << " " << params;
  }
  EXPECT_EQ(scheduler("WarmupLR", "\"warmup_num_steps\": 0", kWithOneBit),
            "arguments/value scheduler.params.warmup_num_steps");
}

TEST(ArgumentValues, SayBothValues) {
  const Reading reading = read_with("optimizer", "AdamW", "\"lr\": -0.001");
  ASSERT_FALSE(reading.problems.empty());
  EXPECT_EQ(reading.problems.front().message.en, "optimizer.params.lr is -0.001, expected a number, 0 or more");
  EXPECT_EQ(reading.problems.front().message.zh, "optimizer.params.lr 是 -0.001，应为不小于 0 的数");
}

}  // namespace
}  // namespace weft::config
