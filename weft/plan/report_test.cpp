#include "weft/plan/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "weft/plan/example_tables_impl.h"
#include "weft/plan/ledger.h"
#include "weft/plan/schedule.h"

namespace weft::plan {
namespace {

using Json = nlohmann::json;

PlanOptions gpt_options() {
  return {.layout = {.world = 4, .bucket_elements = 4'000'000}, .stage = 2, .live_elements = 4'000'000};
}

// The example of docs/plan.md.
constexpr std::string_view kGptText = R"(plan bd2c8ccc4fd7fd719da273ddb6e0205f
  77 parameters, 17.0M elements, world 4, stage 2, 1 micro-step a step

buckets, in the order in which backward completes them
  bucket  type  parameters                              count  elements  padding    bytes    slice
  0       bf16  head.weight                                 1   3145728        0  6.0 MiB  1.5 MiB
  1       bf16  ln_f.bias .. h.3.mlp.out.bias              27   3550080        0  6.8 MiB  1.7 MiB
  2       bf16  h.3.mlp.out.weight .. h.1.mlp.out.bias     24   3548928        0  6.8 MiB  1.7 MiB
  3       bf16  h.1.mlp.out.weight .. wpe                  24   3573120        0  6.8 MiB  1.7 MiB
  4       bf16  wte                                         1   3145728        0  6.0 MiB  1.5 MiB

memory of a rank, without activations (* as configured)
  stage  parameters  gradients  optimizer  communication      total
  0        32.4 MiB   32.4 MiB  194.1 MiB            0 B  258.8 MiB
  1        32.4 MiB   32.4 MiB   48.5 MiB            0 B  113.2 MiB
  2 *      32.4 MiB    8.1 MiB   48.5 MiB       13.6 MiB  102.6 MiB
  3         8.1 MiB    8.1 MiB   48.5 MiB       21.2 MiB   85.9 MiB

what a rank sends in a step
  stage  collectives      sent
  0                5  48.5 MiB
  1               10  48.5 MiB
  2 *             10  48.5 MiB
  3               15  72.8 MiB
)";

TEST(Report, TheTextOfAGpt) { EXPECT_EQ(plan_text(make_plan(gpt_table(Dtype::kBf16), gpt_options())), kGptText); }

TEST(Report, SaysWhatIsFrozen) {
  const ParameterTable table({{.name = "base", .shape = {64}, .frozen = true}, {.name = "adapter", .shape = {8}}});
  const std::string text = plan_text(make_plan(table, {.layout = {.world = 2}}));
  EXPECT_NE(text.find("  1 frozen  fp32  base "), std::string::npos) << text;
}

TEST(Report, TheJsonHasEverything) {
  const Plan plan = make_plan(toy_table(), toy_options());
  const Json json = Json::parse(plan_json(plan));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["hash"].get<std::string>().size(), 32);
  EXPECT_EQ(json["num_elements"], 161);
  EXPECT_EQ(json["options"]["world"], 2);
  EXPECT_EQ(json["options"]["wire_dtype"], nullptr);
  EXPECT_EQ(json["parameters"][0]["shape"], Json({10, 8}));
  EXPECT_EQ(json["parameters"][4]["shape"], Json::array());
  EXPECT_EQ(json["parameters"][5]["tied_to"], 0);
  EXPECT_EQ(json["parameters"][0]["tied_to"], nullptr);
  EXPECT_EQ(json["ready_order"], Json({4, 3, 2, 1, 0}));
  EXPECT_EQ(json["buckets"][0]["slice_elements"], 96);
  EXPECT_EQ(json["buckets"][0]["places"][1], Json({{"parameter", 3}, {"begin", 32}, {"elements", 8}}));
  ASSERT_EQ(json["memory"].size(), 4);
  ASSERT_EQ(json["traffic"].size(), 4);
  for (int stage = 0; stage <= 3; ++stage) {
    EXPECT_EQ(json["memory"][stage]["total_bytes"], make_ledger(plan, stage).total());
    EXPECT_EQ(json["traffic"][stage]["sent_bytes"], make_schedule(plan, stage).sent_bytes());
    EXPECT_EQ(json["traffic"][stage]["boundary"].size(), make_schedule(plan, stage).boundary.size());
  }
  EXPECT_EQ(
      json["traffic"][0]["boundary"][0],
      Json({{"operation", "all_reduce"}, {"phase", "backward"}, {"bucket", 0}, {"bytes", 768}, {"sent_bytes", 768}}));
}

TEST(Report, AnyPlanCanBePrinted) {
  Rng rng(41);
  for (int trial = 0; trial < 200; ++trial) {
    const ParameterTable table = random_table(rng);
    const Plan plan = make_plan(table, random_options(rng, table));
    EXPECT_EQ(Json::parse(plan_json(plan))["buckets"].size(), plan.layout.buckets.size());
    const std::string text = plan_text(plan);
    EXPECT_TRUE(text.ends_with('\n'));
    EXPECT_EQ(text.find(" \n"), std::string::npos) << "spaces at the end of a line";
  }
}

}  // namespace
}  // namespace weft::plan
