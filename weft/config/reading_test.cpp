#include "weft/config/reading.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "weft/base/text.h"
#include "weft/config/test_reading_impl.h"

namespace weft::config {
namespace {

Facts world(int64_t ranks) { return {{"world", int_fact(ranks, "--world")}}; }

const Problem* find(const Reading& reading, std::string_view rule) {
  const auto found =
      std::find_if(reading.problems.begin(), reading.problems.end(), [&](const Problem& p) { return p.rule == rule; });
  return found == reading.problems.end() ? nullptr : &*found;
}

// The eight cases of the triangle: given or not, at world 4.
struct Triangle {
  std::string given;
  int64_t batch, micro, steps;
  std::string rule;  // the problem expected; empty: none
};

class BatchTriangle : public testing::TestWithParam<Triangle> {};

TEST_P(BatchTriangle, ResolvesAsDeepSpeedDoes) {
  const Reading reading = read_text(cat("{", GetParam().given, "}"), world(4));
  if (GetParam().rule.empty()) {
    EXPECT_TRUE(reading.problems.empty());
    EXPECT_EQ(reading.resolved.train_batch_size, GetParam().batch);
    EXPECT_EQ(reading.resolved.train_micro_batch_size_per_gpu, GetParam().micro);
    EXPECT_EQ(reading.resolved.gradient_accumulation_steps, GetParam().steps);
  } else {
    ASSERT_NE(find(reading, GetParam().rule), nullptr);
    EXPECT_TRUE(find(reading, GetParam().rule)->deepspeed_refuses);
  }
}

const std::string kB = "\"train_batch_size\": ";
const std::string kM = "\"train_micro_batch_size_per_gpu\": ";
const std::string kG = "\"gradient_accumulation_steps\": ";

INSTANTIATE_TEST_SUITE_P(AllEight, BatchTriangle,
                         testing::Values(Triangle{kB + "64, " + kM + "8, " + kG + "2", 64, 8, 2, ""},
                                         Triangle{kB + "65, " + kM + "8, " + kG + "2", 0, 0, 0, "batch/mismatch"},
                                         Triangle{kB + "64, " + kM + "8", 64, 8, 2, ""},
                                         Triangle{kB + "8, " + kM + "8", 0, 0, 0, "batch/mismatch"},
                                         Triangle{kB + "64, " + kG + "2", 64, 8, 2, ""},
                                         Triangle{kB + "2, " + kG + "2", 0, 0, 0, "batch/mismatch"},
                                         Triangle{kM + "8, " + kG + "2", 64, 8, 2, ""},
                                         Triangle{kB + "64", 64, 16, 1, ""},
                                         Triangle{kB + "63", 0, 0, 0, "batch/mismatch"},
                                         Triangle{kM + "8", 32, 8, 1, ""}, Triangle{kG + "2", 0, 0, 0, "batch/missing"},
                                         Triangle{"", 0, 0, 0, "batch/missing"}));

TEST(Batch, InfersTheWorldOnlyWhenNobodySaysIt) {
  const std::string text = "{" + kB + "256, " + kM + "8, " + kG + "4}";
  EXPECT_EQ(read_text(text).world, 8);
  EXPECT_EQ(read_text(text).world_origin.kind, Origin::Kind::kDerived);
  const Reading told = read_text(text, world(6));
  EXPECT_EQ(told.world, 6);
  ASSERT_NE(find(told, "batch/mismatch"), nullptr);
  EXPECT_NE(find(told, "batch/mismatch")->message.en.find("from --world"), std::string::npos);
}

// What must be null is refused whatever else it is; "auto" is no exception.
TEST(Auto, IsAWrongValueWhereOnlyNullIsTaken) {
  for (const char* value : {"\"auto\"", "\"on\"", "0.1", "false"}) {
    const Reading reading = read_text(cat("{", kM, "1, \"expert_parallel\": {\"load_balance_coeff\": ", value, "}}"));
    ASSERT_NE(find(reading, "types/wrong"), nullptr) << value;
    EXPECT_TRUE(find(reading, "types/wrong")->deepspeed_refuses) << value;
  }
  const Reading plain = read_text(cat("{", kM, "1, \"expert_parallel\": {\"load_balance_coeff\": null}}"));
  EXPECT_EQ(find(plain, "types/wrong"), nullptr);
}

TEST(Auto, IsAValueWhereTheTableSaysSo) {
  const Reading reading =
      read_text(R"({"train_batch_size": 1, "weft": {"bucket": "auto", "transport": "auto"}})", world(1));
  EXPECT_TRUE(reading.problems.empty());
  EXPECT_EQ(reading.resolved.weft.bucket, BucketSizes::kAuto);
  EXPECT_EQ(reading.resolved.weft.transport, Transport::kAuto);
}

TEST(Auto, ResolvesAsHfDoes) {
  Facts facts = world(2);
  facts.emplace("hidden_size", int_fact(4096, "--hidden-size"));
  facts.emplace("learning_rate", real_fact(2e-5, "--lr"));
  facts.emplace("warmup_steps", int_fact(0, "--warmup-steps"));
  facts.emplace("max_steps", int_fact(900, "--total-steps"));
  facts.emplace("bf16", bool_fact(true, "--precision"));
  const Reading reading = read_text(R"({
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto", "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto", "total_num_steps": "auto"}},
    "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"}})",
                                    facts);
  EXPECT_TRUE(reading.problems.empty()) << reading.problems.front().message.en;
  const Resolved& r = reading.resolved;
  EXPECT_EQ(r.train_micro_batch_size_per_gpu, 8);
  EXPECT_EQ(r.gradient_accumulation_steps, 1);
  EXPECT_EQ(r.train_batch_size, 16);
  EXPECT_EQ(r.gradient_clipping, 1.0);
  EXPECT_TRUE(r.bf16.enabled);
  EXPECT_FALSE(r.fp16.enabled);
  EXPECT_EQ(r.zero_optimization.reduce_bucket_size, 16777216);
  EXPECT_EQ(r.zero_optimization.stage3_prefetch_bucket_size, 15099494);  // int(0.9 · 4096²)
  EXPECT_EQ(r.zero_optimization.stage3_param_persistence_threshold, 40960);
  EXPECT_EQ(to_json(*r.optimizer.params), R"({"lr": 2e-05, "betas": [0.9, 0.999], "eps": 1e-08, "weight_decay": 0.0})");
  EXPECT_EQ(to_json(*r.scheduler.params),
            R"({"warmup_min_lr": 0, "warmup_max_lr": 2e-05, "warmup_num_steps": 1, "total_num_steps": 900})");
  EXPECT_EQ(reading.origin("gradient_clipping").kind, Origin::Kind::kAuto);
  EXPECT_NE(describe_origin(reading, "zero_optimization.reduce_bucket_size", Language::kEnglish).find("hidden² "), 0U);
}

TEST(Auto, TakesTheTrainersOwnValues) {
  const auto source = checked_source(
      "train.yaml",
      "per_device_train_batch_size: 3\nlearning_rate: 0.5\ndeepspeed:\n  train_micro_batch_size_per_gpu: auto\n"
      "  optimizer: {type: AdamW, params: {lr: auto}}\n");
  const Reading reading = read_config(parse_document(source), {});
  EXPECT_EQ(reading.resolved.train_micro_batch_size_per_gpu, 3);
  EXPECT_EQ(to_json(*reading.resolved.optimizer.params), R"({"lr": 0.5})");
  EXPECT_NE(describe_origin(reading, "train_micro_batch_size_per_gpu", Language::kEnglish).find("train.yaml:1:"),
            std::string::npos);
}

struct Changed {
  std::string text;
  std::string path;
  Version old_version;
  std::string before, now;
};

class VersionSemantics : public testing::TestWithParam<Changed> {};

TEST_P(VersionSemantics, SameFileAnotherMeaning) {
  EXPECT_EQ(to_json(read_text(GetParam().text, {}, GetParam().old_version).value(GetParam().path)), GetParam().before);
  EXPECT_EQ(to_json(read_text(GetParam().text).value(GetParam().path)), GetParam().now);
}

INSTANTIATE_TEST_SUITE_P(
    Known, VersionSemantics,
    testing::Values(
        Changed{"{\"train_batch_size\": 8}", "gradient_clipping", {0, 19, 2}, "0.0", "1.0"},
        Changed{"{\"train_batch_size\": 8}", "steps_per_print", {0, 15, 1}, "10", "null"},
        Changed{"{\"train_batch_size\": 8}", "bf16.check_grad_overflow", {0, 19, 2}, "false", "true"},
        Changed{"{\"train_batch_size\": 8, \"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\"}}}",
                "zero_optimization.offload_optimizer.pin_memory",
                {0, 19, 4},
                "false",
                "true"},
        Changed{
            "{\"train_batch_size\": 8, \"aio\": {\"thread_count\": 4}}", "aio.thread_count", {0, 16, 0}, "4", "1"}));

TEST(VersionSemantics, TheFileMayNameItsVersion) {
  const std::string text = "{\"train_batch_size\": 8, \"weft\": {\"semantics\": \"deepspeed-0.18\"}}";
  EXPECT_EQ(read_text(text).resolved.gradient_clipping, 0.0);
  EXPECT_EQ(read_text(text, {}, kNewestDeepSpeed).resolved.gradient_clipping, 1.0);
}

TEST(Provenance, EveryValueKnowsWhereItCameFrom) {
  const Reading reading =
      read_text("{\n  \"train_batch_size\": 8,\n  \"zero_optimization\": { \"stage\": 3 }\n}", world(2));
  const auto from = [&](std::string_view path) { return describe_origin(reading, path, Language::kEnglish); };
  EXPECT_EQ(from("zero_optimization.stage"), "ds.json:3:35");
  EXPECT_EQ(from("gradient_clipping"), "default");
  EXPECT_EQ(from("zero_optimization.overlap_comm"), "derived: on in stage 3, off in others");
  EXPECT_EQ(from("train_micro_batch_size_per_gpu"), "derived: train_batch_size / world");
  EXPECT_EQ(describe_origin(read_text("{\"train_batch_size\": 8}", {}, Version{0, 18, 0}), "gradient_clipping",
                            Language::kEnglish),
            "default of DeepSpeed 0.18.0");
}

TEST(Keys, AliasesAndOldFormsMeanTheSame) {
  EXPECT_EQ(read_text(R"({"train_batch_size": 8, "zero_optimization": {"stage": 3, "prefetch_bucket_size": 7}})")
                .resolved.zero_optimization.stage3_prefetch_bucket_size,
            7);
  EXPECT_EQ(read_text(R"({"train_batch_size": 8, "zero_optimization": {"stage": 2, "cpu_offload": true}})")
                .resolved.zero_optimization.offload_optimizer.device,
            OffloadDevice::kCpu);
  EXPECT_TRUE(read_text(R"({"train_batch_size": 8, "bfloat16": {"enabled": true}})").resolved.bf16.enabled);
  const Reading legacy = read_text(R"({"train_batch_size": 8, "zero_optimization": true, "allgather_size": 1000})");
  EXPECT_EQ(legacy.resolved.zero_optimization.stage, 1);
  EXPECT_EQ(legacy.value("zero_optimization.allgather_bucket_size").integer, 1000);
}

TEST(Keys, UnknownOnesPointAtTheKeyAndSayWhatWasMeant) {
  const Reading reading = read_text("{\"train_batch_size\": 8,\n \"gradient_cliping\": 1.0}");
  const Problem* problem = find(reading, "keys/misspelt");
  ASSERT_NE(problem, nullptr);
  EXPECT_EQ(problem->suggested, "gradient_clipping");
  EXPECT_EQ(reading.document.source->where(problem->span), "ds.json:2:2");
  ASSERT_EQ(problem->edits.size(), 1U);
  EXPECT_EQ(problem->edits[0].kind, Edit::Kind::kRename);
}

TEST(Keys, MisplacedOnesAreMoved) {
  const Reading reading =
      read_text(R"({"train_batch_size": 8, "overlap_comm": true, "zero_optimization": {"stage": 2}})");
  const Problem* problem = find(reading, "keys/misplaced");
  ASSERT_NE(problem, nullptr);
  EXPECT_EQ(problem->edits[0].to, "zero_optimization.overlap_comm");
}

TEST(Usable, ThrowsEveryErrorAtOnce) {
  EXPECT_NO_THROW(require_usable(read_text("{\"train_batch_size\": 8}")));
  try {
    require_usable(read_text("{\"train_batch_size\": 8, \"fp16\": true, \"zero_optimization\": {\"stage\": 9}}"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("2 errors"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("ds.json:1:33"), std::string::npos);
  }
}

// DeepSpeed reads nothing of what is under "weft", however deep.
TEST(Reading, OfKeysUnderWeftDeepSpeedSaysNothing) {
  for (const char* inside : {R"("zzz": 1)", R"("dashboard": {"zzz": 1})", R"("dashboard": {"_note": "x"})",
                             R"("dashboard": {"host": 3})", R"("dashboard": {"port": 70000})", R"("dashboard": 1)"}) {
    const Reading reading = read_text(cat(R"({"train_batch_size": 8, "weft": {)", inside, "}}"));
    ASSERT_EQ(reading.problems.size(), 1U) << inside;
    const Problem& problem = reading.problems[0];
    EXPECT_EQ(problem.severity, Severity::kError) << inside;
    EXPECT_FALSE(problem.deepspeed_refuses) << inside;
    EXPECT_EQ(problem.message.en.find("DeepSpeed refuses"), std::string::npos) << problem.message.en;
  }
}

}  // namespace
}  // namespace weft::config
