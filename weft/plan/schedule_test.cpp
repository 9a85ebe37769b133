#include "weft/plan/schedule.h"

#include <gtest/gtest.h>

#include "weft/plan/example_tables_impl.h"
#include "weft/plan/ledger.h"

namespace weft::plan {
namespace {

std::string text_of(const std::vector<Collective>& collectives) {
  std::string out;
  for (const Collective& one : collectives)
    out += cat(out.empty() ? "" : ", ", name_of(one.phase), " ", name_of(one.operation), " ", one.bucket);
  return out;
}

// Two buckets: 192 and 128 elements of fp32, world 2.
Plan toy_plan(int accumulation_steps, int64_t live_elements = 0) {
  PlanOptions options = toy_options();
  options.accumulation_steps = accumulation_steps;
  options.live_elements = live_elements;
  return make_plan(toy_table(), options);
}

TEST(Schedule, Stage0ReducesAtTheBoundaryOnly) {
  const Schedule schedule = make_schedule(toy_plan(3), 0);
  EXPECT_EQ(text_of(schedule.first), "");
  EXPECT_EQ(text_of(schedule.middle), "");
  EXPECT_EQ(text_of(schedule.boundary), "backward all_reduce 0, backward all_reduce 1");
  EXPECT_EQ(schedule.num_collectives(), 2);
  EXPECT_EQ(schedule.boundary[0].bytes, 192 * 4);
  EXPECT_EQ(schedule.sent_bytes(), 2 * (192 + 128) * 4 / 2);
}

TEST(Schedule, Stage1ReducesAtTheBoundaryAndGathersWhatItUpdated) {
  const Schedule schedule = make_schedule(toy_plan(3), 1);
  EXPECT_EQ(text_of(schedule.first) + text_of(schedule.middle), "");
  EXPECT_EQ(text_of(schedule.boundary),
            "backward reduce_scatter 0, backward reduce_scatter 1, update all_gather 1, update all_gather 0");
  EXPECT_EQ(schedule.sent_bytes(), make_schedule(toy_plan(3), 0).sent_bytes());
}

TEST(Schedule, Stage2ReducesInEveryMicroStep) {
  const Schedule schedule = make_schedule(toy_plan(4), 2);
  EXPECT_EQ(text_of(schedule.first), "backward reduce_scatter 0, backward reduce_scatter 1");
  EXPECT_EQ(schedule.middle, schedule.first);
  EXPECT_EQ(text_of(schedule.boundary),
            "backward reduce_scatter 0, backward reduce_scatter 1, update all_gather 1, update all_gather 0");
  EXPECT_EQ(schedule.num_collectives(), 4 * 2 + 2);
  EXPECT_EQ(schedule.sent_bytes(), (4 + 1) * (192 + 128) * 4 / 2);
}

TEST(Schedule, Stage3GathersForForwardAndForBackward) {
  const Schedule schedule = make_schedule(toy_plan(1), 3);
  EXPECT_EQ(text_of(schedule.boundary),
            "forward all_gather 1, forward all_gather 0, backward all_gather 0, backward reduce_scatter 0, "
            "backward all_gather 1, backward reduce_scatter 1");
  EXPECT_EQ(schedule.sent_bytes(), 3 * (192 + 128) * 4 / 2);
}

TEST(Schedule, Stage3GathersOnceWhereAllMayStay) {
  const Schedule schedule = make_schedule(toy_plan(3, 320), 3);
  EXPECT_EQ(text_of(schedule.first),
            "forward all_gather 1, forward all_gather 0, backward reduce_scatter 0, backward reduce_scatter 1");
  EXPECT_EQ(text_of(schedule.middle), "backward reduce_scatter 0, backward reduce_scatter 1");
  EXPECT_EQ(schedule.boundary, schedule.middle);
  EXPECT_EQ(make_schedule(toy_plan(1, 320), 3).boundary, schedule.first) << "the only micro-step is the first too";
  EXPECT_EQ(make_schedule(toy_plan(3, 319), 3).middle.size(), 6) << "one element too many";
}

TEST(Schedule, FrozenBucketsAreGatheredButNeverReduced) {
  const ParameterTable table({{.name = "base", .shape = {64}, .frozen = true}, {.name = "adapter", .shape = {8}}});
  const Plan plan = make_plan(table, {.layout = {.world = 2}, .live_elements = 0});
  EXPECT_EQ(text_of(make_schedule(plan, 2).boundary), "backward reduce_scatter 0, update all_gather 0");
  EXPECT_EQ(text_of(make_schedule(plan, 3).boundary),
            "forward all_gather 1, forward all_gather 0, backward all_gather 1, backward all_gather 0, "
            "backward reduce_scatter 0");
}

TEST(Schedule, GradientsTravelInTheTypeOfTheWireAndParametersInTheirOwn) {
  const ParameterTable table({{.name = "a", .shape = {640}}});
  const Plan plan = make_plan(table, {.layout = {.world = 2}, .wire_dtype = Dtype::kBf16});
  const Schedule schedule = make_schedule(plan, 1);
  ASSERT_EQ(schedule.boundary.size(), 2);
  EXPECT_EQ(schedule.boundary[0].bytes, 640 * 2);
  EXPECT_EQ(schedule.boundary[1].bytes, 640 * 4);
}

TEST(Schedule, AnUpdateThatIsSharedOutMakesStageZeroStageOne) {
  PlanOptions options = toy_options();
  options.shard_update = true;
  const Plan plan = make_plan(toy_table(), options);
  EXPECT_EQ(make_schedule(plan, 0).boundary, make_schedule(plan, 1).boundary);
  EXPECT_EQ(make_ledger(plan, 0).total(), make_ledger(plan, 1).total());
}

TEST(Schedule, ParametersInCommonAreNotGathered) {
  PlanOptions options = toy_options();
  options.common_parameters = true;
  const Plan plan = make_plan(toy_table(), options);
  EXPECT_EQ(text_of(make_schedule(plan, 1).boundary), "backward reduce_scatter 0, backward reduce_scatter 1");
  EXPECT_EQ(text_of(make_schedule(plan, 2).boundary), "backward reduce_scatter 0, backward reduce_scatter 1");
}

// Two hosts of four ranks: a slice goes to the other host once, not to seven ranks.
TEST(Schedule, ACopyInEachHostIsBroughtUpToDateAfterTheUpdate) {
  PlanOptions options = toy_options();
  options.layout.world = 8;
  options.stage = 3;
  options.live_elements = 0;
  const int64_t apart = make_schedule(make_plan(toy_table(), options), 3).sent_bytes();
  keep_in_host(4, options);
  const Plan plan = make_plan(toy_table(), options);
  const Schedule schedule = make_schedule(plan, 3);
  EXPECT_EQ(text_of(schedule.boundary),
            "backward reduce_scatter 0, backward reduce_scatter 1, update all_gather 1, update all_gather 0");
  for (const Collective& one : schedule.boundary) {
    const int64_t slice_bytes = plan.layout.bucket(one.bucket).slice_elements * 4;
    EXPECT_EQ(one.sent_bytes, one.operation == Operation::kAllGather ? slice_bytes : 7 * slice_bytes);
  }
  EXPECT_EQ(apart * 8, schedule.sent_bytes() * 21) << "7 + 7 + 7 slices, and 7 + 1";
}

TEST(Schedule, StagesThatReduceEachMicroStepAddUpTheResults) {
  PlanOptions options = toy_options();
  options.accumulation_steps = 3;
  options.reduce_each = true;
  const Plan plan = make_plan(toy_table(), options);
  for (int stage = 0; stage <= 2; ++stage) EXPECT_TRUE(adds_reduced(plan, stage));
  EXPECT_EQ(text_of(make_schedule(plan, 0).middle), "backward all_reduce 0, backward all_reduce 1");
  EXPECT_EQ(make_schedule(plan, 1).middle, make_schedule(plan, 2).middle);
  options.reduce_each = false;
  const Plan once = make_plan(toy_table(), options);
  EXPECT_FALSE(adds_reduced(once, 1));
  options.accumulation_steps = 1;
  EXPECT_FALSE(adds_reduced(make_plan(toy_table(), options), 2));
  options.counts_micro_steps = false;
  EXPECT_TRUE(adds_reduced(make_plan(toy_table(), options), 2)) << "nobody knows how many there will be";
  EXPECT_TRUE(make_schedule(once, 1).middle.empty());
  const auto sums =
      make_ledger(plan, 1).bytes(MemoryKind::kGradients) - make_ledger(once, 1).bytes(MemoryKind::kGradients);
  EXPECT_EQ(sums * plan.layout.world, make_ledger(once, 1).bytes(MemoryKind::kGradients));
}

// Slices of 96 and 64 elements: less than a block each, so one scale.
TEST(Schedule, CompressedSlicesGoToTheirOwners) {
  PlanOptions options = toy_options();
  options.compress = true;
  const Plan plan = make_plan(toy_table(), options);
  const Schedule schedule = make_schedule(plan, 1);
  EXPECT_EQ(text_of(schedule.boundary),
            "backward all_to_all 0, backward all_to_all 1, update all_gather 1, update all_gather 0");
  EXPECT_EQ(schedule.boundary[0].bytes, 2 * (96 + 4));
  EXPECT_EQ(schedule.boundary[0].sent_bytes, 96 + 4);
  EXPECT_EQ(make_schedule(plan, 2).boundary, schedule.boundary);
  EXPECT_EQ(text_of(make_schedule(plan, 0).boundary), "backward all_reduce 0, backward all_reduce 1");
  EXPECT_EQ(compressed_bytes(0), 0);
  EXPECT_EQ(compressed_bytes(256), 256 + 4);
  EXPECT_EQ(compressed_bytes(288), 288 + 8);
}

TEST(Schedule, OneRankSendsNothing) {
  PlanOptions options = toy_options();
  options.layout.world = 1;
  const Plan plan = make_plan(toy_table(), options);
  for (int stage = 0; stage <= 3; ++stage) {
    EXPECT_EQ(make_schedule(plan, stage).num_collectives(), 0);
    EXPECT_EQ(make_schedule(plan, stage).sent_bytes(), 0);
  }
}

TEST(Schedule, NothingOverflowsForTheLargestStep) {
  const ParameterTable table({{.name = "a", .shape = {kMaxElements}, .dtype = Dtype::kFp64}});
  const Plan plan = make_plan(
      table, {.layout = {.world = kMaxWorld}, .accumulation_steps = kMaxAccumulationSteps, .live_elements = 0});
  const int64_t once = kMaxElements / kMaxWorld * (kMaxWorld - 1) * 8;
  EXPECT_EQ(make_schedule(plan, 3).sent_bytes(), 3 * once * kMaxAccumulationSteps);
}

// (n-1)/n of the padded bytes for each one-way trip, by hand.
TEST(Schedule, BytesFollowTheFormulasForAnyPlan) {
  Rng rng(5);
  for (int trial = 0; trial < 500 && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(cat("trial ", trial));
    const ParameterTable table = random_table(rng);
    const Plan plan = make_plan(table, random_options(rng, table));
    const int64_t n = plan.layout.world, k = plan.options.accumulation_steps;
    int64_t wire = 0, parameters = 0, frozen = 0, elements = 0;
    for (const Bucket& bucket : plan.layout.buckets) {
      const int64_t width = bytes_of(bucket.dtype);
      elements += bucket.num_elements;
      (bucket.frozen ? frozen : parameters) += bucket.num_elements * width;
      if (!bucket.frozen) wire += bucket.num_elements * bytes_of(wire_dtype(plan.options, bucket));
    }
    const auto share = [&](int64_t bytes) { return bytes / n * (n - 1); };
    EXPECT_EQ(make_schedule(plan, 0).sent_bytes(), 2 * share(wire));
    EXPECT_EQ(make_schedule(plan, 1).sent_bytes(), share(wire) + share(parameters));
    EXPECT_EQ(make_schedule(plan, 2).sent_bytes(), k * share(wire) + share(parameters));
    const int64_t gathers = elements <= plan.options.live_elements ? 1 : 2 * k;
    EXPECT_EQ(make_schedule(plan, 3).sent_bytes(), k * share(wire) + gathers * share(parameters + frozen));
  }
}

}  // namespace
}  // namespace weft::plan
