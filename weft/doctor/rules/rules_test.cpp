// Every rule, both ways: a config that has the problem and its neighbour that has not. The last test holds the table against
// the list of rules, so that a rule without a case fails the build of nobody but this suite.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "weft/base/text.h"
#include "weft/doctor/rules/diagnosis.h"
#include "weft/doctor/rules/test_facts_impl.h"

namespace weft::doctor {
namespace {

using config::Facts;
using config::Version;

struct Case {
  std::string rule;
  std::string bad;
  std::string good;
  Machine machine = {};
  Facts facts = {};
  std::optional<Version> version = {};
  std::string name = "ds.json";
};

std::set<std::string> rules_of(const Case& one, const std::string& text) {
  std::set<std::string> found;
  try {
    auto document = config::parse_document(config::checked_source(one.name, text));
    const auto reading = config::read_config(std::move(document), one.facts, one.version);
    for (const auto& problem : diagnose(reading, one.machine).problems) {
      found.insert(problem.rule);
      EXPECT_FALSE(problem.message.en.empty()) << problem.rule;
      EXPECT_FALSE(problem.message.zh.empty()) << problem.rule;
    }
  } catch (const config::ReadError& error) {
    found.insert(error.rule());
  }
  return found;
}

// {"train_batch_size": 8, …}: most rules are about the rest.
std::string with(const std::string& rest) {
  return cat("{\"train_batch_size\": 8", rest.empty() ? "" : ", ", rest, "}");
}
std::string zero(int stage, const std::string& rest = "") {
  return with(cat("\"zero_optimization\": {\"stage\": ", stage, rest.empty() ? "" : ", ", rest, "}"));
}
// A rule that only ever ticks never reports; its "bad" text is empty.
const char* const kNeverReports = "";

Machine gpu(int64_t gib, double params) { return {.gpu_bytes = gib << 30, .params = params}; }
Machine variable(const std::string& name, const std::string& value) { return {.environment = {{name, value}}}; }

std::vector<Case> syntax_cases() {
  const std::string fine = "{\"train_batch_size\": 8}";
  return {
      {"syntax/hjson", "{\"a\": 1", fine},
      {"syntax/yaml", "a: [1", "train_batch_size: 8", {}, {}, {}, "ds.yaml"},
      {"syntax/duplicate-key", "{\"fp16\": {}, \"fp16\": {}}", fine},
      {"syntax/not-a-number", "{\"steps_per_print\": Infinity}", fine},
      {"syntax/number-too-large", "{\"train_batch_size\": 99999999999999999999}", fine},
      {"syntax/too-deep", std::string(10'000, '['), fine},
      {"syntax/encoding", "{\"a\": \"\xff\"}", fine},
      {"syntax/binary",
       std::string("\x7f"
                   "ELF\0\0\0",
                   7),
       fine},
      {"syntax/too-large", std::string(config::kMaxSourceBytes + 1, ' '), fine},
      {"syntax/root", "[1, 2]", fine},
  };
}

std::vector<Case> key_cases() {
  return {
      {"keys/unknown", with("\"zzz_unheard_of\": 1"), with("")},
      {"keys/misspelt", with("\"gradient_cliping\": 1.0"), with("\"gradient_clipping\": 1.0")},
      {"keys/misplaced", zero(2, "\"zero_allow_untested_optimizer\": true"),
       with("\"zero_allow_untested_optimizer\": true")},
      {"keys/another-tools", with("\"use_dynamic_tiling\": true"), with("")},
      {"keys/comment-refused", zero(1, "\"_comment\": \"why\""), with("\"_comment\": \"why\"")},
      {"keys/removed", with("\"amp\": {}"), with(""), {}, {}, {}},
      {"keys/renamed", with("\"aio\": {\"thread_count\": 2}"), with("\"aio\": {\"intra_op_parallelism\": 2}")},
      {"keys/deprecated", zero(2, "\"cpu_offload\": true"), zero(2, "\"offload_optimizer\": {\"device\": \"cpu\"}")},
      {"keys/both-names", zero(3, "\"stage3_prefetch_bucket_size\": 5, \"prefetch_bucket_size\": 5"),
       zero(3, "\"prefetch_bucket_size\": 5")},
      {"keys/too-new", zero(2, "\"parameter_alignment\": true"), zero(2), {}, {}, Version{0, 18, 0}},
      {"keys/out-of-scope", with("\"autotuning\": {\"enabled\": true}"), with("\"autotuning\": {\"enabled\": false}")},
      {"keys/out-of-scope", with("\"bf16\": {\"enabled\": true, \"immediate_grad_update\": true}"),
       with("\"bf16\": {\"enabled\": true}")},
      {"keys/out-of-scope", zero(2, "\"reduce_scatter\": false"), zero(2, "\"reduce_scatter\": true")},
      {"keys/not-yet", zero(2, "\"offload_optimizer\": {\"device\": \"cpu\"}"),
       zero(2, "\"offload_optimizer\": {\"device\": \"none\"}")},
      {"keys/not-yet", zero(2, "\"cpu_offload\": true"), zero(2, "\"cpu_offload\": false")},
      {"keys/not-offered", with("\"sequence_parallel_size\": 4"), with("\"sequence_parallel_size\": 1")},
      {"types/wrong", zero(2, "\"reduce_bucket_size\": 15099494.4"), zero(2, "\"reduce_bucket_size\": 15099494")},
      {"types/python-literal", "{\"train_batch_size\": 8\n\"fp16\": {\n\"enabled\": True,\n}}",
       with("\"fp16\": {\"enabled\": true}")},
      {"types/range", zero(4), zero(3)},
      {"types/range", with("\"weft\": {\"dashboard\": {\"port\": 70000}}"),
       with("\"weft\": {\"dashboard\": {\"port\": 65535}}")},
      {"types/range", with("\"gradient_predivide_factor\": 0"), with("\"gradient_predivide_factor\": 2")},
      {"types/range", with("\"flops_profiler\": {\"recompute_fwd_factor\": -1}"),
       with("\"flops_profiler\": {\"recompute_fwd_factor\": 0}")},
      {"types/not-an-object", with("\"fp16\": true"), with("\"fp16\": {}")},
      {"types/version", with("\"weft\": {\"semantics\": \"deepspeed-7\"}"),
       with("\"weft\": {\"semantics\": \"deepspeed-0.18\"}")},
      {"auto/needs-hidden-size", zero(2, "\"reduce_bucket_size\": \"auto\""),
       zero(2, "\"reduce_bucket_size\": 16777216")},
      {"auto/default", zero(2, "\"sub_group_size\": \"auto\""), zero(2)},
      {"auto/disagrees",
       "{\"train_micro_batch_size_per_gpu\": 4}",
       "{\"train_micro_batch_size_per_gpu\": 2}",
       {},
       {{"per_device_train_batch_size", config::int_fact(2, "--micro-batch")}}},
      {"auto/unresolved",
       with("\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": \"auto\"}}"),
       with("\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": 5000}}")},
      {"batch/missing", "{}", "{\"train_micro_batch_size_per_gpu\": 1}"},
      {"batch/mismatch", "{\"train_batch_size\": 10, \"train_micro_batch_size_per_gpu\": 4}",
       "{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 4}"},
  };
}

std::vector<Case> argument_cases() {
  const auto optimizer = [](const std::string& type, const std::string& params) {
    return with(cat("\"optimizer\": {\"type\": \"", type, "\", \"params\": {", params, "}}"));
  };
  const auto scheduler = [](const std::string& type, const std::string& params) {
    return with(cat("\"scheduler\": {\"type\": \"", type, "\", \"params\": {", params, "}}"));
  };
  return {
      {"arguments/unknown", optimizer("AdamW", "\"lr\": 1e-4, \"max_grad_norm\": 1.0"),
       optimizer("AdamW", "\"lr\": 1e-4")},
      {"arguments/no-type", with("\"optimizer\": {\"params\": {\"lr\": 1}}"), optimizer("AdamW", "\"lr\": 1")},
      {"arguments/unknown-type", optimizer("FusedAdamW", "\"lr\": 1e-4"), optimizer("SGD", "\"lr\": 1e-4")},
      {"arguments/class-name", optimizer("FusedAdam", "\"lr\": 1e-4"), optimizer("AdamW", "\"lr\": 1e-4")},
      {"arguments/missing", scheduler("WarmupDecayLR", ""), scheduler("WarmupDecayLR", "\"total_num_steps\": 2000")},
      {"arguments/removed-optimizer", optimizer("OneBitAdam", "\"lr\": 1e-4"), optimizer("Adam", "\"lr\": 1e-4")},
      {"arguments/not-offered", optimizer("RMSprop", "\"lr\": 1e-4"), optimizer("SGD", "\"lr\": 1e-4")},
      {"arguments/value", optimizer("AdamW", "\"lr\": -0.001"), optimizer("AdamW", "\"lr\": 0.001")},
      {"arguments/warmup-steps", scheduler("WarmupLR", "\"warmup_num_steps\": 0"),
       scheduler("WarmupLR", "\"warmup_num_steps\": 1")},
      {"schedule/hidden-peak", scheduler("WarmupDecayLR", "\"total_num_steps\": 2000"),
       scheduler("WarmupDecayLR", "\"total_num_steps\": 2000, \"warmup_max_lr\": 1e-4")},
      {"schedule/log-warmup", scheduler("WarmupLR", ""), scheduler("WarmupLR", "\"warmup_type\": \"linear\"")},
      {"schedule/short-total", scheduler("WarmupDecayLR", "\"total_num_steps\": 500"),
       scheduler("WarmupDecayLR", "\"total_num_steps\": 500, \"warmup_num_steps\": 50")},
      {"schedule/adam-is-adamw", optimizer("Adam", "\"lr\": 1, \"weight_decay\": 0.1"),
       optimizer("AdamW", "\"lr\": 1, \"weight_decay\": 0.1")},
      {"schedule/no-rate", optimizer("AdamW", ""), optimizer("AdamW", "\"lr\": 1e-4")},
  };
}

std::vector<Case> conflict_cases() {
  return {
      {"conflicts/two-precisions", with("\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}"),
       with("\"bf16\": {\"enabled\": true}")},
      {"conflicts/sum-stage3",
       "{\"train_batch_size\": 8, \"gradient_allreduce_op\": \"sum\", \"zero_optimization\": {\"stage\": 3}}",
       "{\"train_batch_size\": 8, \"gradient_allreduce_op\": \"sum\", \"zero_optimization\": {\"stage\": 2}}"},
      {"conflicts/norm-needs-stage", zero(3, "\"compute_grad_norm\": false"), zero(3)},
      {"conflicts/norm-needs-no-clipping", zero(2, "\"compute_grad_norm\": false"),
       "{\"train_batch_size\": 8, \"gradient_clipping\": 0, \"zero_optimization\": {\"stage\": 2, "
       "\"compute_grad_norm\": false}}"},
      {"conflicts/partial-offload", zero(2, "\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.3}"),
       zero(3, "\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.3}")},
      {"conflicts/master-needs-zero", with("\"bf16\": {\"enabled\": true, \"bf16_master_weights_and_grads\": true}"),
       with("\"bf16\": {\"enabled\": true}")},
      {"conflicts/states-need-zero", with("\"bf16\": {\"enabled\": true, \"bf16_optimizer_states\": true}"),
       with("\"bf16\": {\"enabled\": true}")},
      {"conflicts/states-need-master",
       "{\"train_batch_size\": 8, \"bf16\": {\"enabled\": true, \"bf16_optimizer_states\": true}, "
       "\"zero_optimization\": {\"stage\": 1}}",
       zero(1)},
      {"conflicts/loss-scale-window", with("\"fp16\": {\"enabled\": true, \"loss_scale_window\": 0}"),
       with("\"fp16\": {\"enabled\": true}")},
      {"conflicts/min-loss-scale", with("\"fp16\": {\"enabled\": true, \"min_loss_scale\": 0}"),
       with("\"fp16\": {\"enabled\": true}")},
      {"conflicts/prescale-reduce-scatter",
       "{\"train_batch_size\": 8, \"prescale_gradients\": true, \"zero_optimization\": {\"stage\": 2}}",
       "{\"train_batch_size\": 8, \"prescale_gradients\": true, \"zero_optimization\": {\"stage\": 1}}"},
      {"conflicts/odd-gather-bucket", zero(2, "\"allgather_bucket_size\": 100000001"),
       zero(3, "\"allgather_bucket_size\": 100000001")},
      {"conflicts/param-dtype", with("\"data_types\": {\"param_dtype\": \"fp16\"}"),
       with("\"data_types\": {\"param_dtype\": \"fp32\"}")},
      {"conflicts/unmanaged-overlap",
       "{\"train_batch_size\": 8, \"managed_gradient_accumulation\": false, \"zero_optimization\": {\"stage\": 1, "
       "\"overlap_comm\": true}}",
       "{\"train_batch_size\": 8, \"managed_gradient_accumulation\": false, \"zero_optimization\": {\"stage\": 1}}"},
      {"conflicts/contiguous-checkpoints",
       with("\"activation_checkpointing\": {\"contiguous_memory_optimization\": true}"),
       with("\"activation_checkpointing\": {\"contiguous_memory_optimization\": true, \"partition_activations\": true, "
            "\"number_checkpoints\": 4}")},
      {"conflicts/lamb-static-scale",
       with("\"fp16\": {\"enabled\": true, \"loss_scale\": 128}, \"optimizer\": {\"type\": \"Lamb\"}"),
       with("\"fp16\": {\"enabled\": true}, \"optimizer\": {\"type\": \"Lamb\"}")},
      {"conflicts/lamb-static-scale",
       with("\"fp16\": {\"enabled\": true, \"loss_scale\": 128}, \"optimizer\": {\"type\": \"FusedLamb\"}"),
       with("\"fp16\": {\"enabled\": true}, \"optimizer\": {\"type\": \"FusedLamb\"}")},
  };
}

std::string int8(const std::string& rest, const std::string& more = "") {
  return with(cat("\"weft\": {\"compress\": \"int8\"", more, "}", rest.empty() ? "" : ", ", rest));
}

std::vector<Case> engine_conflict_cases() {
  const std::string masters = "\"bf16_master_weights_and_grads\": true";
  const auto lamb = [&](const std::string& bf16) {
    return cat(
        "{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 1}, \"optimizer\": {\"type\": "
        "\"Lamb\", \"params\": {\"lr\": 1}}, \"bf16\": {",
        bf16, "}}");
  };
  const auto fp16 = [](const std::string& rest) { return with(cat("\"fp16\": {\"enabled\": true, ", rest, "}")); };
  return {
      {"conflicts/compress-type", int8("\"communication_data_type\": \"bf16\""), int8("")},
      {"conflicts/compress-copies", int8("", ", \"shard_update\": false"),
       int8("\"zero_optimization\": {\"stage\": 1}", ", \"shard_update\": false")},
      {"conflicts/compress-stage3", int8("\"zero_optimization\": {\"stage\": 3}"),
       int8("\"zero_optimization\": {\"stage\": 2}")},
      {"conflicts/compress-scale", int8("\"fp16\": {\"enabled\": true}"), int8("\"bf16\": {\"enabled\": true}")},
      {"conflicts/compress-scale", int8("\"torch_autocast\": {\"enabled\": true, \"dtype\": \"fp16\"}"),
       int8("\"torch_autocast\": {\"enabled\": true, \"dtype\": \"bf16\"}")},
      {"conflicts/lamb-masters", lamb("\"enabled\": true, " + masters), lamb("\"enabled\": true")},
      {"conflicts/states-need-bf16",
       cat("{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 1}, \"bf16\": {", masters,
           ", \"bf16_optimizer_states\": true}}"),
       cat("{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 1}, \"bf16\": {\"enabled\": true, ", masters,
           ", \"bf16_optimizer_states\": true}}")},
      {"conflicts/scale-power", fp16("\"initial_scale_power\": 128"), fp16("\"initial_scale_power\": 127")},
      {"conflicts/hysteresis", fp16("\"hysteresis\": 0"), fp16("\"hysteresis\": 1")},
  };
}

std::vector<Case> file_and_precision_cases() {
  return {
      {"file/byte-order-mark", "\xef\xbb\xbf{\"train_batch_size\": 8}", "{\"train_batch_size\": 8}"},
      {"file/yaml-exponent",
       "train_batch_size: 8\nzero_optimization:\n  reduce_bucket_size: 1e8\n",
       "train_batch_size: 8\nzero_optimization:\n  reduce_bucket_size: 1.0e+8\n",
       {},
       {},
       {},
       "ds.yaml"},
      {"file/strict-json", "{\"train_micro_batch_size_per_gpu\": \"auto\"} // for HF",
       "{\"train_micro_batch_size_per_gpu\": \"auto\"}"},
      {"batch/arithmetic", kNeverReports, with("")},
      {"batch/world-assumed", with(""), "{\"train_micro_batch_size_per_gpu\": 8}"},
      {"batch/accumulation-traffic",
       "{\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 16, \"zero_optimization\": "
       "{\"stage\": 2}}",
       "{\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 16, \"zero_optimization\": "
       "{\"stage\": 1}}"},
      {"precision/bf16", with("\"fp16\": {\"enabled\": true}"), with("\"bf16\": {\"enabled\": true}")},
      {"precision/fp32", zero(1), with("")},
      {"precision/accumulation",
       "{\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 8, \"bf16\": {\"enabled\": true}}",
       "{\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 8, \"bf16\": {\"enabled\": true}, "
       "\"data_types\": {\"grad_accum_dtype\": \"fp32\"}}"},
      {"precision/wire", with("\"bf16\": {\"enabled\": true}, \"communication_data_type\": \"fp32\""),
       with("\"bf16\": {\"enabled\": true}, \"communication_data_type\": \"bf16\"")},
  };
}

std::vector<Case> performance_cases() {
  const std::string cpu = "\"offload_optimizer\": {\"device\": \"cpu\"";
  return {
      {"performance/overlap", zero(2, "\"overlap_comm\": false"), zero(2, "\"overlap_comm\": true"), {}, world(8)},
      {"performance/contiguous", zero(2, "\"contiguous_gradients\": false"), zero(2)},
      {"performance/reduce-scatter", zero(3, "\"reduce_scatter\": false"), zero(2, "\"reduce_scatter\": false")},
      {"performance/printing", with("\"steps_per_print\": 2000"), with("\"steps_per_print\": 50")},
      {"performance/fused-adam", with("\"optimizer\": {\"type\": \"Adam\", \"params\": {\"torch_adam\": true}}"),
       with("\"optimizer\": {\"type\": \"Adam\", \"params\": {}}")},
      {"performance/round-robin",
       zero(2, cpu + "}"),
       zero(2, cpu + "}, \"round_robin_gradients\": true"),
       {},
       world(8)},
      {"performance/pin-memory", zero(2, cpu + ", \"pin_memory\": false}"), zero(2, cpu + "}")},
      {"performance/instruments", with("\"wall_clock_breakdown\": true"), with("\"wall_clock_breakdown\": false")},
      {"bucket/reduce-size", zero(2, "\"reduce_bucket_size\": 5e8"), zero(2, "\"reduce_bucket_size\": 2e8")},
      {"bucket/gather-size", zero(2, "\"allgather_bucket_size\": 5e8"), zero(3, "\"allgather_bucket_size\": 5e8")},
      {"bucket/tiny", zero(2, "\"reduce_bucket_size\": 1000"), zero(2, "\"reduce_bucket_size\": 1e8")},
      {"bucket/bytes", zero(2, "\"reduce_bucket_size\": 536870912"), zero(2, "\"reduce_bucket_size\": 500000000")},
  };
}

std::vector<Case> memory_cases() {
  const std::string offload = "\"offload_optimizer\": {\"device\": \"cpu\"}";
  return {
      {"memory/stage", kNeverReports, zero(2)},
      {"memory/fits", zero(0), zero(3), gpu(80, 7e9), world(8)},
      {"memory/needless-offload", zero(2, offload), zero(2), gpu(80, 1e9), world(8)},
      {"memory/micro-batch", "{\"train_micro_batch_size_per_gpu\": 1}", "{\"train_micro_batch_size_per_gpu\": 32}",
       gpu(80, 1e9)},
      {"zero3/large-model", zero(2), zero(3), gpu(80, 70e9), world(8)},
      {"zero3/small-model", zero(3), zero(2), gpu(80, 0.1e9), world(8)},
      {"zero3/prefetch", zero(3, "\"stage3_prefetch_bucket_size\": 0"), zero(3)},
      {"zero3/persistence", zero(3, "\"stage3_param_persistence_threshold\": 0"), zero(3)},
      {"zero3/live", zero(3, "\"stage3_max_live_parameters\": 1000000, \"stage3_prefetch_bucket_size\": 1000"),
       zero(3)},
      {"zero3/whole-weights", zero(3), zero(3, "\"stage3_gather_16bit_weights_on_model_save\": true")},
      {"zero3/nvme", zero(3, "\"offload_param\": {\"device\": \"nvme\"}"),
       zero(3, "\"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/local\"}")},
      {"zero3/offload-stage0", zero(0, offload), zero(1, offload)},
  };
}

std::vector<Case> inert_cases() {
  return {
      {"inert/stage", zero(2, "\"stage3_max_live_parameters\": 5e8"), zero(3, "\"stage3_max_live_parameters\": 5e8")},
      {"inert/condition", zero(3, "\"offload_param\": {\"device\": \"cpu\", \"buffer_count\": 9}"),
       zero(3, "\"offload_param\": {\"device\": \"nvme\", \"buffer_count\": 9}")},
      {"inert/dead", zero(2, "\"allgather_partitions\": false"), zero(2, "\"allgather_partitions\": true")},
      {"inert/activation-checkpointing", with("\"activation_checkpointing\": {\"cpu_checkpointing\": true}"),
       with("\"activation_checkpointing\": {\"cpu_checkpointing\": false}")},
      {"inert/fp16-off", with("\"fp16\": {\"hysteresis\": 3}"),
       with("\"fp16\": {\"enabled\": true, \"hysteresis\": 3}")},
      {"inert/aio", with("\"aio\": {\"queue_depth\": 32}"),
       zero(3, "\"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/n\"}")},
  };
}

std::vector<Case> reliability_cases() {
  return {
      {"reliability/clipping", with("\"gradient_clipping\": 0"), with("\"gradient_clipping\": 1.0")},
      {"reliability/overflow-check", with("\"bf16\": {\"enabled\": true, \"check_grad_overflow\": false}"),
       with("\"bf16\": {\"enabled\": true}")},
      {"reliability/static-scale", with("\"fp16\": {\"enabled\": true, \"loss_scale\": 128}"),
       with("\"fp16\": {\"enabled\": true, \"loss_scale\": 0}")},
      {"reliability/initial-scale", with("\"fp16\": {\"enabled\": true, \"initial_scale_power\": 32}"),
       with("\"fp16\": {\"enabled\": true}")},
      {"reliability/saves", with("\"weft\": {\"save_every_steps\": 50000}"),
       with("\"weft\": {\"save_every_steps\": 500}")},
      {"reliability/one-save", with("\"weft\": {\"keep_saves\": 1}"), with("\"weft\": {\"keep_saves\": 2}")},
      {"reliability/tags", with("\"checkpoint\": {\"tag_validation\": \"Ignore\"}"),
       with("\"checkpoint\": {\"tag_validation\": \"Fail\"}")},
      {"reliability/lossy-load", zero(2, "\"load_from_fp32_weights\": false"), zero(2)},
  };
}

class Rules : public testing::TestWithParam<Case> {};

TEST_P(Rules, SaysItWhereItIsSo) {
  const bool never = GetParam().bad == kNeverReports;
  EXPECT_TRUE(never || rules_of(GetParam(), GetParam().bad).contains(GetParam().rule)) << GetParam().bad;
}

TEST_P(Rules, SaysNothingWhereItIsNot) {
  EXPECT_FALSE(rules_of(GetParam(), GetParam().good).contains(GetParam().rule)) << GetParam().good;
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& part :
       {syntax_cases(), key_cases(), argument_cases(), conflict_cases(), engine_conflict_cases(),
        file_and_precision_cases(), performance_cases(), memory_cases(), inert_cases(), reliability_cases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = cat(info.index, "_", info.param.rule);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Rules, testing::ValuesIn(all_cases()), case_name);

// That weft has no use for a key is the lesser word: a tick, or a rule that says more, takes its place.
TEST(Diagnosis, SaysOnceThatASettingHasNoEffect) {
  const auto said = [](const std::string& text) { return rules_of({}, text).contains("keys/out-of-scope"); };
  EXPECT_FALSE(said(zero(2, "\"round_robin_gradients\": true"))) << "the tick says it";
  EXPECT_FALSE(said(zero(2, "\"sub_group_size\": 1000"))) << "inert/stage says it";
  EXPECT_FALSE(said(zero(2, "\"allgather_partitions\": false"))) << "inert/dead says it";
  EXPECT_TRUE(said(zero(3, "\"sub_group_size\": 1000")));
  EXPECT_TRUE(said(zero(2, "\"compute_grad_norm\": false, \"parameter_alignment\": true")));
}

struct VariableCase {
  std::string rule;
  Machine bad;
  Machine good;
  std::string text;
};

TEST(EnvironmentRules, SayItBothWays) {
  const std::string offload = zero(2, "\"offload_optimizer\": {\"device\": \"cpu\"}");
  const VariableCase cases[] = {
      {"environment/unread", variable("DS_REUSE_BUFFERS", "1"), variable("DS_ACCELERATOR", "cuda"), with("")},
      {"environment/harmful", variable("CUDA_LAUNCH_BLOCKING", "1"), variable("CUDA_LAUNCH_BLOCKING", "0"), with("")},
      {"environment/no-effect", variable("CUDA_AUTO_BOOST", "0"), variable("CUDA_VISIBLE_DEVICES", "0"), with("")},
      {"environment/allocator", variable("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128"),
       variable("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"), with("")},
      {"environment/threads", variable("OMP_NUM_THREADS", "1"), variable("OMP_NUM_THREADS", "8"), offload},
  };
  for (const VariableCase& one : cases) {
    EXPECT_TRUE(rules_of({.rule = one.rule, .machine = one.bad}, one.text).contains(one.rule)) << one.rule;
    EXPECT_FALSE(rules_of({.rule = one.rule, .machine = one.good}, one.text).contains(one.rule)) << one.rule;
  }
}

TEST(RuleTable, HasACaseForEveryRule) {
  // Those about files on disk have theirs in config's document_test.
  std::set<std::string> covered = {"syntax/directory", "syntax/missing-file", "syntax/unreadable", "syntax/reference"};
  for (const Case& one : all_cases()) covered.insert(one.rule);
  for (const std::string variable_rule : {"unread", "harmful", "no-effect", "allocator", "threads"})
    covered.insert(cat("environment/", variable_rule));
  std::set<std::string> listed;
  for (const auto& info : all_rules()) {
    EXPECT_TRUE(listed.insert(std::string(info.id)).second) << info.id << " is listed twice";
    EXPECT_TRUE(covered.contains(std::string(info.id))) << info.id << " has no case";
    EXPECT_FALSE(info.what_zh.empty() || info.why.empty() || info.why_zh.empty()) << info.id;
  }
  for (const std::string& rule : covered) EXPECT_TRUE(listed.contains(rule)) << rule << " is not a rule";
}

}  // namespace
}  // namespace weft::doctor
